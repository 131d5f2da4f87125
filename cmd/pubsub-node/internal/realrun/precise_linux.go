package realrun

import (
	"syscall"
	"time"
)

// rest waits that long, which is short, to less than a tenth of a millisecond: the timers of Go
// may be a whole one late, which is a lot if the latency is one.
func rest(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&left, nil) // interrupted: whoever called looks at the clock
}
