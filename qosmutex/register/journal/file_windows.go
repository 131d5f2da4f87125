package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes an exclusive lock, which the kernel frees when the process ends.
func lockFile(path string) (f *os.File, unlock func(), err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	// Beyond the end, so that the contents can be read and written.
	const far = 1 << 30
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{Offset: far})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = ErrInUse
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// inode: a file's number on Windows is not known before it is replaced.
func inode(*os.File) (uint64, error) { return 0, nil }

// replaceFile puts next in the place of path, where old may be open, and returns it.
// It closes old. Windows renames only files that are closed, onto ones that are.
func replaceFile(next *os.File, path string, old *os.File) (*os.File, error) {
	err := next.Close()
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// syncDirectory: Windows knows no such thing; a rename is in the journal.
func syncDirectory(string) error { return nil }
