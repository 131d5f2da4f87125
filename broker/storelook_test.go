//go:build unix

package broker

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"padme/internal/throttle"
)

// lookInTest is what look logs.
func (s *store) lookInTest(told *throttle.Log[string]) string {
	var said strings.Builder
	s.log = slog.New(slog.NewTextHandler(&said, nil))
	s.look(told)
	return said.String()
}

// What is removed while the broker runs is recreated as soon as its directory is there.
func TestStoreOutlivesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openTestStore(t, dir)
	s.put("b", "1", []byte("x"))
	var told throttle.Log[string]
	if said := s.lookInTest(&told); said != "" || s.vanished.Load() {
		t.Fatalf("nothing has happened, and it says %q", said)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s.put("b", "2", []byte("y"))
	if said := s.lookInTest(&told); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, s.path) || !strings.Contains(said, "make the directory again") || !s.vanished.Load() {
		t.Errorf("the directory was removed, and it says %q", said)
	}
	if said := s.lookInTest(&told); said != "" {
		t.Errorf("again within the minute: %q", said)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if said := s.lookInTest(&told); !strings.Contains(said, "recreated") || s.vanished.Load() {
		t.Errorf("the directory is there again, and it says %q", said)
	}
	if _, err := openLog(dir, testLog(t)); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("another broker opens it: %v", err)
	}
	s.put("b", "3", []byte("z"))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, openTestStore(t, dir)); !maps.Equal(got, map[string]string{"b|1": "x", "b|2": "y", "b|3": "z"}) {
		t.Errorf("after a restart: %v", got)
	}
}

// A file is not recreated by a compaction that was under way when it was removed, nor said to be.
func TestStoreIsRecreatedAfterACompaction(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	compacting := func(is bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.compacting = is
	}
	compacting(true)
	var told throttle.Log[string]
	if said := s.lookInTest(&told); !strings.Contains(said, "was removed") || strings.Contains(said, "recreated") || !s.vanished.Load() {
		t.Errorf("during a compaction it says %q", said)
	}
	compacting(false)
	if said := s.lookInTest(&told); !strings.Contains(said, "recreated") || s.vanished.Load() {
		t.Errorf("after it, it says %q", said)
	}
}

// What somebody has put in the place of the file stays, whatever the broker writes.
func TestStoreOverwritesNoCopy(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	if err := errors.Join(os.Remove(s.path), os.WriteFile(s.path, []byte("a copy"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var told throttle.Log[string]
	if said := s.lookInTest(&told); !strings.Contains(said, "another file is in its place") {
		t.Errorf("it says %q", said)
	}
	if err := s.compact(); err == nil {
		t.Error("it is compacted")
	}
	if text, err := os.ReadFile(s.path); err != nil || string(text) != "a copy" {
		t.Errorf("the copy is now %q, %v", text, err)
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	if said := s.lookInTest(&told); !strings.Contains(said, "recreated") {
		t.Errorf("without the copy it says %q", said)
	}
}

// A broker that was started in the place of one whose directory was removed keeps its lock.
func TestStoreSharesNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openTestStore(t, dir)
	if err := os.Remove(s.lock.Name()); err != nil {
		t.Fatal(err)
	}
	other, err := lockFile(s.lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var told throttle.Log[string]
	if said := s.lookInTest(&told); !strings.Contains(said, "another broker is running") {
		t.Errorf("it says %q", said)
	}
}

// A copy of the lock file in its place is locked as well, though it looks like the lock file.
func TestStoreLocksACopyOfItsLock(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	path := s.lock.Name()
	is, err := s.lock.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, make([]byte, is.Size()), 0o600), os.Chtimes(path, is.ModTime(), is.ModTime())); err != nil {
		t.Fatal(err)
	}
	var told throttle.Log[string]
	if said := s.lookInTest(&told); said != "" {
		t.Errorf("it says %q", said)
	}
	if other, err := lockFile(path); !errors.Is(err, errLocked) {
		t.Errorf("another broker locks it: %v", err)
		_ = other.Close()
	}
}
