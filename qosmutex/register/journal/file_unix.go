//go:build unix

package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive lock, which the kernel frees when the process ends.
func lockFile(path string) (f *os.File, unlock func(), err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// inode identifies a file within its file system.
func inode(f *os.File) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return uint64(st.Ino), nil //nolint:unconvert // 32 bits wide on some systems
}

// replaceFile puts next in the place of path, where old may be open, and returns it.
// It closes old; after an error, next, too.
func replaceFile(next *os.File, path string, old *os.File) (*os.File, error) {
	if err := os.Rename(next.Name(), path); err != nil {
		return old, errors.Join(err, next.Close())
	}
	if old != nil {
		_ = old.Close() // nothing of it is needed
	}
	return next, nil
}

// syncDirectory has a rename survive a power cut.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
