package central

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// watchMachine returns a function that tells which part of the machine's processor time
// other processes have used since.
func watchMachine() func() float64 {
	all, own, began := machineTime(), ownTime(), time.Now()
	return func() float64 {
		others := machineTime() - all - (ownTime() - own)
		return max(0, others.Seconds()) / (time.Since(began).Seconds() * float64(runtime.NumCPU()))
	}
}

// machineTime is the processor time that all processes have used, and what was stolen.
func machineTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, iowait, irq, softirq, steal int64 // hundredths of a second
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+softirq+irq+steal) * 10 * time.Millisecond
}

func ownTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
