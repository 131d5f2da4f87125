package qosmutex

import (
	"sync/atomic"
	"time"
)

var lastIncarnation atomic.Uint64

// nextIncarnation numbers one opening of a topic: microseconds of the wall clock,
// raised where needed so that no two openings of this process share a number.
func nextIncarnation() uint64 {
	for {
		last := lastIncarnation.Load()
		next := max(uint64(time.Now().UnixMicro()), last+1)
		if lastIncarnation.CompareAndSwap(last, next) {
			return next
		}
	}
}
