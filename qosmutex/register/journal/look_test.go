//go:build unix

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func look(j *Journal, records ...string) (bool, error) {
	return j.Look(func() (all [][]byte) {
		for _, r := range records {
			all = append(all, []byte(r))
		}
		return all
	})
}

// A journal whose directory was removed is recreated once that is there again; the next run finds
// everything, and no other process opens it before.
func TestJournalOutlivesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "voter")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j, _ := mustOpen(t, path)
	write(t, j, "a")
	begin(t, j, "n")
	if recreated, err := look(j, "a"); recreated || err != nil {
		t.Fatalf("nothing has happened: %v, %v", recreated, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write(t, j, "b")
	if recreated, err := look(j, "a", "b"); recreated || !errors.Is(err, ErrVanished) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "make the directory again") {
		t.Errorf("the directory was removed: %v, %v", recreated, err)
	}
	if err := j.Compact([]byte("a"), []byte("b")); !errors.Is(err, ErrVanished) {
		t.Errorf("it is compacted: %v", err)
	}
	write(t, j, "c")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j, "a", "b", "c"); !recreated || err != nil {
		t.Errorf("the directory is there again: %v, %v", recreated, err)
	}
	if _, _, err := open(path, "test"); !errors.Is(err, ErrInUse) {
		t.Errorf("another process opens it: %v", err)
	}
	write(t, j, "d")
	if !j.WantsUnsynced() {
		t.Error("what was noted is not begun again")
	}
	begin(t, j, "n")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	opens := j.Opens()
	j, got := mustOpen(t, path)
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(got, want) || j.Opens() != opens+1 {
		t.Errorf("the next run reads %v, opened %d times", got, j.Opens())
	}
	if noted, all := unsyncedOf(j); !all || !slices.Equal(noted, []string{"n"}) {
		t.Errorf("the next run is told %v, all: %v", noted, all)
	}
}

// A file that may come back has no successor, nor one that somebody has put a copy in place of.
func TestJournalOverwritesNoCopy(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"moved": func(path string) error { return os.Rename(path, path+".old") },
		"a copy in its place": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("copy"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "voter")
			j, _ := mustOpen(t, path)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			if recreated, err := look(j); recreated || !errors.Is(err, ErrVanished) || !strings.Contains(err.Error(), "do not stop this process") {
				t.Errorf("%v, %v", recreated, err)
			}
			if err := j.Compact(); !errors.Is(err, ErrVanished) {
				t.Errorf("it is compacted: %v", err)
			}
			if err := j.BeginUnsynced(); !errors.Is(err, ErrUnnoted) {
				t.Errorf("what is noted is written there: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("%q has become %q", before, after)
			}
			write(t, j, "x")
		})
	}
}

// Without its guard another process would open the same file, so it is taken again.
func TestJournalTakesItsGuardAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "voter")
	j, _ := mustOpen(t, path)
	guard := path + lockSuffix
	if err := os.Remove(guard); err != nil {
		t.Fatal(err)
	}
	_, unlock, err := lockFile(guard)
	if err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j); recreated || !errors.Is(err, ErrInUse) || !errors.Is(err, ErrVanished) {
		t.Errorf("another process has it: %v, %v", recreated, err)
	}
	unlock()
	if err := os.Remove(guard); err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j); !recreated || err != nil {
		t.Errorf("%v, %v", recreated, err)
	}
	if _, _, err := open(path, "test"); !errors.Is(err, ErrInUse) {
		t.Errorf("another process opens it: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
}

// A copy of the guard in its place is locked as well, though it looks like the guard.
func TestJournalTakesACopyOfItsGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "voter")
	j, _ := mustOpen(t, path)
	guard := path + lockSuffix
	text, err := os.ReadFile(guard)
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.Stat(guard)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(guard, guard+".old"), os.WriteFile(guard, text, 0o600), os.Chtimes(guard, is.ModTime(), is.ModTime())); err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j); !recreated || err != nil {
		t.Errorf("%v, %v", recreated, err)
	}
	if _, _, err := open(path, "test"); !errors.Is(err, ErrInUse) {
		t.Errorf("another process opens it: %v", err)
	}
}

// A guard that cannot be written excludes others nevertheless, and is written again: without its count,
// a copy of the journal would be taken for the journal.
func TestJournalCountsInItsGuardAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "voter")
	j, _ := mustOpen(t, path)
	guard := path + lockSuffix
	if err := errors.Join(os.Remove(guard), unix.Mkfifo(guard, 0o600)); err != nil { // it can be locked, and not be written at an offset
		t.Fatal(err)
	}
	for range 2 {
		if recreated, err := look(j); recreated || !errors.Is(err, ErrVanished) {
			t.Errorf("it cannot be written: %v, %v", recreated, err)
		}
		if _, unlock, err := lockFile(guard); !errors.Is(err, ErrInUse) {
			unlock()
			t.Fatalf("another process locks it: %v", err)
		}
	}
	if err := os.Remove(guard); err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j); !recreated || err != nil {
		t.Errorf("it can be written: %v, %v", recreated, err)
	}
	if n, err := readCount(j.guard); n != j.Opens() || err != nil {
		t.Errorf("it counts %d, %v, not %d", n, err, j.Opens())
	}
	if recreated, err := look(j); recreated || err != nil {
		t.Errorf("it is written: %v, %v", recreated, err)
	}
}

// Unsynced records are begun again when their file alone is away. What was noted in the old one
// does not count when somebody puts it back.
func TestJournalNotesAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "voter")
	j, _ := mustOpen(t, path)
	begin(t, j, "a")
	noted := path + unsyncedSuffix
	if err := os.Rename(noted, noted+".old"); err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j); recreated || err != nil || !j.WantsUnsynced() {
		t.Errorf("the file was moved: %v, %v, begun again: %v", recreated, err, j.WantsUnsynced())
	}
	if err := os.Rename(noted+".old", noted); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, _ = mustOpen(t, path)
	if noted, all := unsyncedOf(j); all {
		t.Errorf("the next run believes that %v is all", noted)
	}
}

// Unsynced records that can be neither shortened nor removed break the journal only where they could
// count again.
func TestJournalBreaksForNotesThatMayComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(noted string) error
		broken bool
	}{
		"removed": {change: os.Remove},
		"replaced": {change: func(noted string) error {
			return errors.Join(os.Remove(noted), os.WriteFile(noted, []byte("x"), 0o600))
		}},
		"moved": {func(noted string) error { return os.Rename(noted, noted+".old") }, true},
		"moved, and another in its place": {func(noted string) error {
			return errors.Join(os.Rename(noted, noted+".old"), os.WriteFile(noted, []byte("x"), 0o600))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "voter")
			j, _ := mustOpen(t, path)
			begin(t, j, "a")
			readOnly(t, j)
			if err := c.change(path + unsyncedSuffix); err != nil {
				t.Fatal(err)
			}
			if _, err := look(j); (err != nil) != c.broken {
				t.Errorf("%v", err)
			}
			if err := j.Append([]byte("b")); (err != nil) != c.broken {
				t.Errorf("it appends: %v", err)
			}
		})
	}
}

// Unsynced records whose path cannot be looked at for a moment are kept.
func TestJournalKeepsNotesThatItCannotSee(t *testing.T) {
	path := filepath.Join(t.TempDir(), "voter")
	j, _ := mustOpen(t, path)
	begin(t, j, "a")
	noted := path + unsyncedSuffix
	if err := errors.Join(os.Rename(noted, noted+".old"), os.Symlink(noted, noted)); err != nil {
		t.Fatal(err)
	}
	if recreated, err := look(j); recreated || err != nil || j.WantsUnsynced() {
		t.Errorf("%v, %v, begun again: %v", recreated, err, j.WantsUnsynced())
	}
	if err := errors.Join(os.Rename(noted+".old", noted), j.Close()); err != nil {
		t.Fatal(err)
	}
	j, _ = mustOpen(t, path)
	if noted, all := unsyncedOf(j); !all || !slices.Equal(noted, []string{"a"}) {
		t.Errorf("the next run is told %v, all: %v", noted, all)
	}
}
