//go:build unix

package vanished

import (
	"io/fs"
	"syscall"
)

// removed reports whether no path names a file any more.
func removed(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}
