//go:build aix || linux || solaris

package main

import "golang.org/x/sys/unix"

// The requests for the settings of a terminal.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)
