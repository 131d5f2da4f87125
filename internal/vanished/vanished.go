// Package vanished notices that a path does not name the file any more that a process has open
// there, because somebody removed or moved it, or unmounted its volume. The process goes on writing
// to a file that nobody finds, and nothing else tells until it is started again.
package vanished

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Every is the pause between two looks.
const Every = 5 * time.Second

// gone says that a file was removed, and is missing at its path.
type gone struct{ path string }

func (e *gone) Error() string { return e.path + " was removed" }

// Gone reports whether an error of Look says that no path names the file any more, so that it cannot
// come back, and that its directory has nothing in its place: then the process may write a new one
// there. While the file is only somewhere else it must not: that one may be put back later, and lacks
// what was written to the new one.
func Gone(err error) bool { return errors.As(err, new(*gone)) }

// Unknown reports whether an error of Look says only that the path could not be looked at.
func Unknown(err error) bool { return errors.As(err, new(*fs.PathError)) }

// Removed reports whether no path names the open file any more, so that it cannot come back.
func Removed(file *os.File) bool {
	is, err := file.Stat()
	return err == nil && removed(is)
}

// Look compares the open file with what path names. The error says what differs, and what to do
// unless Gone knows that.
func Look(file *os.File, path string) error {
	if renumbered(file, path) {
		return nil
	}
	return look(file, path)
}

// LookGuard is Look for a guard, which is locked and not written, so that a copy of it stays alike: then
// it is taken for the same file only where the data that it guards has another number, too.
func LookGuard(guard *os.File, path string, data *os.File, dataPath string) error {
	if renumbered(data, dataPath) && renumbered(guard, path) {
		return nil
	}
	return look(guard, path)
}

func look(file *os.File, path string) error {
	is, err := file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	unnamed := removed(is)
	var what, remedy string
	switch {
	case err == nil && os.SameFile(is, there):
		return nil
	case err == nil && unnamed:
		what, remedy = "was removed, and another file is in its place", "move that one away, then this process recreates its own"
	case err == nil:
		what, remedy = "was moved, or its volume unmounted, and another file is in its place", "move that one away, and put this process's own back"
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !unnamed:
		what, remedy = "was moved, or its volume unmounted", "put it back, or mount the volume again"
	case isDirectory(filepath.Dir(path)):
		return &gone{path}
	default:
		what, remedy = "was removed with its directory", "make the directory again, then this process recreates the file"
	}
	return fmt.Errorf("%s %s: do not stop this process, which would lose what it keeps there: %s", path, what, remedy)
}

// renumbered reports whether the path names a file with another number that has the same size, and was
// last written at the same time. Not all file systems number a file alike each time, so that it could
// not be told from another one there. A copy that is alike stays so only until the next write.
func renumbered(file *os.File, path string) bool {
	is, err := file.Stat()
	there, err2 := os.Stat(path)
	return err == nil && err2 == nil && !os.SameFile(is, there) && !removed(is) &&
		is.Size() == there.Size() && is.ModTime().Equal(there.ModTime())
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
