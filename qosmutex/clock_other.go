//go:build !linux

package qosmutex

import (
	"time"

	"padme/qosmutex/protocol"
)

var started = time.Now()

// bootTime reads Go's monotonic clock. On some of these platforms it stops while
// the machine sleeps: there a hold may pass Check after a sleep longer than the
// TTL until the next answer of the root, and only the fence protects. Give
// WithClock a clock that counts sleep where that matters.
func bootTime() protocol.Time { return protocol.Time(time.Since(started)) }
