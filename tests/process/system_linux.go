package process

import "syscall"

func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}

func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }
