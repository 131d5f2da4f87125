//go:build unix && !linux

package main

import "syscall"

// groupAttributes puts the command in a group of its own. There is no
// parent-death signal here: when this process is killed with KILL the command
// goes on, and only the fence keeps its effects out.
func groupAttributes(tty *terminal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if tty != nil && tty.ours() {
		attr.Foreground, attr.Ctty = true, tty.fd
	}
	return attr
}
