package main

import "syscall"

// dieWithParent has the kernel end a robot's process when its parent dies, even
// by kill -9. The closed standard input ends it too, but only as fast as the
// robot comes back.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
