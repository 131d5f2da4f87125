package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Open returns a guard whose memory is the file at path. The file is made if there
// is none, in a directory that exists; it is JSON, {"resource": fence}. A fence is
// on disk before its access runs, so that neither kill -9 nor a power cut makes the
// guard forget. The file is replaced, never changed: it is the old or the new one.
//
// Several processes of one machine may open the same path: accesses exclude each
// other by a lock on path + ".lock", which the kernel frees when a process ends.
// One that is stopped inside an access holds up the others. Network file systems
// may not honor such locks. Both files must stay where they are while anything
// that they guard is in use.
//
// A file that cannot be read is an error of Open and of each access: nothing is
// admitted by a guard that does not know what it has seen.
func Open(path string) (*Guard, error) {
	absolute, err := filepath.Abs(path) // the working directory may change
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	f := &file{path: absolute}
	if err := f.lock(); err != nil {
		return nil, err
	}
	defer f.unlock()
	_, err = f.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = f.write(map[string]uint64{})
	}
	if err != nil {
		return nil, err
	}
	return &Guard{file: f}, nil
}

// file is the memory of a guard. Its methods need the lock.
type file struct {
	path   string
	unlock func() // of lock
}

func (f *file) lock() error {
	unlock, err := lockFile(f.path + ".lock")
	if err != nil {
		return fmt.Errorf("fence: cannot lock %s.lock: %w", f.path, err)
	}
	f.unlock = unlock
	return nil
}

// read returns what has been seen. It reads again each time, as another process
// may have written.
func (f *file) read() (map[string]uint64, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	var seen map[string]uint64
	if err := json.Unmarshal(text, &seen); err != nil {
		return nil, fmt.Errorf("fence: %s is no guard's file: %w", f.path, err)
	}
	if seen == nil { // null
		return nil, fmt.Errorf("fence: %s is no guard's file: %.20q", f.path, text)
	}
	return seen, nil
}

func (f *file) write(seen map[string]uint64) error {
	text, err := json.Marshal(seen)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	next := f.path + ".new"
	if err := writeSynced(next, append(text, '\n')); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if err := os.Rename(next, f.path); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if err := syncDirectory(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	return nil
}

func writeSynced(path string, text []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
