//go:build !unix

package simulation

import "time"

var began = time.Now()

// cpuTime is the time since the start, which is as much if one core does nothing else.
func cpuTime() time.Duration { return time.Since(began) }
