//go:build unix

package main

import (
	"os"
	"syscall"
)

// canSuspend says that processes can be stopped and continued here.
const canSuspend = true

// suspend stops a process, or lets it go on.
func suspend(p *os.Process, on bool) error {
	if on {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
