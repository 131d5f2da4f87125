package broker

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/internal/throttle"
)

// recall keeps, in a directory that is in memory, whose password was right: otherwise, after a
// restart, all clients wait until each password has been checked again, at tens of milliseconds
// each, and whoever guesses meanwhile under their names, at their address, keeps them waiting.
//
// The file has what the process has in memory anyway: a key, and with it the MAC of each right
// password. With it passwords can be guessed fast, so it does not belong on a disk.
type recall struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	wrote []byte
	told  throttle.Log[string] // writes that have failed
}

const recallName = "passwords"

// recallFrom reads what a former process has left in dir, and has u write there from now on. What is
// there and cannot be believed, or read, is an error.
func (u *Users) recallFrom(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: RuntimeDir: %w", ErrInvalidConfig, err)
	}
	real, err := filepath.EvalSymlinks(dir) // systemd's is a link, see DynamicUser
	if err != nil {
		return fmt.Errorf("%w: RuntimeDir: %w", ErrInvalidConfig, err)
	}
	r := &recall{path: filepath.Join(real, recallName), log: log}
	if err := believed(real, fs.ModeDir, 0o022); err != nil {
		return err
	}
	switch err := believed(r.path, 0, 0o077); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		text, err := os.ReadFile(r.path)
		if err != nil {
			return fmt.Errorf("%w: RuntimeDir: %w", ErrInvalidConfig, err)
		}
		if err := u.recollect(text); err != nil {
			log.Warn("what was known of passwords before a restart is not used: each is checked again", "file", r.path, "error", err)
		}
	}
	u.mu.Lock()
	u.recall = r
	u.mu.Unlock()
	return nil
}

// believed refuses what is not of a kind, or what others could have written, or with forbidden read.
func believed(path string, kind, forbidden fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w: RuntimeDir: %w", ErrInvalidConfig, err)
	}
	if info.Mode().Type() != kind || !ours(info, forbidden) {
		return fmt.Errorf("%w: RuntimeDir: %s is not this user's alone (%v): whoever writes there could log in as anybody; give a directory of this program's own", ErrInvalidConfig, path, info.Mode())
	}
	return nil
}

// recollect takes over the key and the MACs of a file; a MAC is of a password and the hash that
// stood in the users file then.
func (u *Users) recollect(text []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	if !lines.Scan() {
		return errors.New("it is empty")
	}
	key, err := hex.DecodeString(lines.Text())
	if err != nil || len(key) != len(u.key) {
		return errors.New("it begins with no key")
	}
	u.once.Do(func() { copy(u.key[:], key) })
	u.mu.Lock()
	defer u.mu.Unlock()
	if !bytes.Equal(u.key[:], key) {
		return errors.New("these users are in use already, with another key")
	}
	for lines.Scan() {
		name, sum, _ := strings.Cut(lines.Text(), ":")
		mac, err := hex.DecodeString(sum)
		if a := u.accounts[name]; err == nil && a != nil {
			a.verified = mac
		}
	}
	return lines.Err()
}

// save writes what is known now. It is called after each password that was found right.
func (r *recall) save(u *Users) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text bytes.Buffer
	u.mu.RLock()
	fmt.Fprintf(&text, "%x\n", u.key)
	for _, name := range slices.Sorted(maps.Keys(u.accounts)) {
		if a := u.accounts[name]; a.verified != nil {
			fmt.Fprintf(&text, "%s:%x\n", name, a.verified)
		}
	}
	u.mu.RUnlock()
	now := slices.Clone(text.Bytes())
	if bytes.Equal(now, r.wrote) {
		return
	}
	if err := replaceFile(r.path, &text); err != nil {
		if r.told.May(r.path, time.Now()) {
			r.log.Warn("passwords will be checked again after a restart", "file", r.path, "error", err)
		}
		return // and the next one tries again
	}
	r.wrote = now
}
