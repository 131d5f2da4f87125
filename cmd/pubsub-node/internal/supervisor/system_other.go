//go:build unix && !linux

package supervisor

import (
	"os"
	"syscall"
)

// What loses its parent belongs to process 1 here, so that only the process group can be found
// again.
func adoptOrphans() {}

func descendants() []int { return nil }

func nameProcess() {}

func ownProgram() (string, error) { return os.Executable() }

// groupAttributes puts the command in a group of its own. There is no parent-death signal.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
