//go:build unix

package broker

import "golang.org/x/sys/unix"

// openFiles returns how many files the process may have open, connections included; Go has
// raised the soft limit to the hard one. 0 means not known.
func openFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on FreeBSD
}
