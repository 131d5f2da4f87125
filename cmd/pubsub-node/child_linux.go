package main

import "syscall"

// groupAttributes puts the command in a group of its own. If this process is
// killed and can tell nobody, the command gets TERM from the kernel: it must not
// go on without the lock.
func groupAttributes(tty *terminal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if tty != nil && tty.ours() {
		attr.Foreground, attr.Ctty = true, tty.fd
	}
	return attr
}
