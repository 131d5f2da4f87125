//go:build unix

package broker

import (
	"errors"

	"golang.org/x/sys/unix"
)

// tryWrite writes as much as a socket takes at once.
func tryWrite(fd uintptr, b []byte) int {
	for {
		n, err := unix.Write(int(fd), b)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}
