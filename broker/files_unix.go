//go:build unix

package broker

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFiles returns how many files the process may have open, connections included; Go has
// raised the soft limit to the hard one. 0 means not known.
func openFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on FreeBSD
}

// ours reports whether a file is of the user of this process, or of root, and others have none of
// some rights.
func ours(info fs.FileInfo, forbidden fs.FileMode) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&forbidden == 0 && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
