//go:build !linux

package process

import (
	"os"
	"syscall"
)

// attributes cannot ask other systems to end a process with this one, and tests with groups
// run on Linux only.
func attributes(bool) *syscall.SysProcAttr { return nil }

func killGroup(leader int) {
	if p, err := os.FindProcess(leader); err == nil {
		_ = p.Kill()
	}
}
