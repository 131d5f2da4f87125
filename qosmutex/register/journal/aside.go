package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SetAside renames the journal at path, of whatever kind and in whatever state, and
// returns its new name; what is opened at path next is empty. Nobody may have it open,
// and nobody can open it until SetAside returns. It calls wait before it renames
// anything, and does nothing if that fails. Every error of its own names the path.
func SetAside(path string, wait func() error) (string, error) {
	_, unlock, err := lockFile(path + lockSuffix)
	if err != nil {
		return "", fmt.Errorf("journal: %s: %w", path, err)
	}
	defer unlock()
	if err := wait(); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.reset-%d", path, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("journal: %w", err)
		}
		err := os.Rename(path, aside)
		if err == nil {
			err = syncDirectory(filepath.Dir(path))
		}
		if err != nil {
			return "", fmt.Errorf("journal: %w", err)
		}
		return aside, nil
	}
}
