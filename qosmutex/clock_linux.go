package qosmutex

import (
	"golang.org/x/sys/unix"

	"padme/qosmutex/protocol"
)

// bootTime reads CLOCK_BOOTTIME, which goes on while the machine sleeps: a
// participant that was suspended finds its holds expired.
func bootTime() protocol.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Every kernel since 2.6.39 has it; a sandbox that forbids it leaves no safe clock.
		panic("qosmutex: cannot read CLOCK_BOOTTIME: " + err.Error())
	}
	return protocol.Time(ts.Nano())
}
