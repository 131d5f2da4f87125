//go:build !linux

package main

import "syscall"

// dieWithParent has nothing to add here: a robot's process ends when its standard
// input is closed.
func dieWithParent() *syscall.SysProcAttr { return nil }
