package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func open(path, kind string) (*Journal, []string, error) {
	var records []string
	j, err := Open(path, kind, func(r []byte) error {
		records = append(records, string(r))
		return nil
	})
	return j, records, err
}

func mustOpen(t *testing.T, path string) (*Journal, []string) {
	t.Helper()
	j, records, err := open(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, records
}

func write(t *testing.T, j *Journal, records ...string) {
	t.Helper()
	var list [][]byte
	for _, r := range records {
		list = append(list, []byte(r))
	}
	if err := j.Append(list...); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsAreReadBackInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, records := mustOpen(t, path)
	if len(records) != 0 || j.Opens() != 1 {
		t.Fatalf("a new journal has %q and was opened %d times", records, j.Opens())
	}
	write(t, j, "a", "")
	write(t, j, strings.Repeat("b", 70000))
	_ = j.Close()
	j, records = mustOpen(t, path)
	if want := []string{"a", "", strings.Repeat("b", 70000)}; !slices.Equal(records, want) || j.Opens() != 2 {
		t.Fatalf("got %.40q, opened %d times", records, j.Opens())
	}
	before := j.Size()
	if err := j.Compact([]byte("c")); err != nil {
		t.Fatal(err)
	}
	if j.Size() >= before {
		t.Errorf("compacting made %d bytes of %d", j.Size(), before)
	}
	write(t, j, "d")
	_ = j.Close()
	j, records = mustOpen(t, path)
	if !slices.Equal(records, []string{"c", "d"}) || j.Opens() != 3 {
		t.Errorf("after compacting: %q, opened %d times", records, j.Opens())
	}
}

// A crash may cut the file short at any byte of the last append, or leave zeros there.
func TestTornTailIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	write(t, j, "first")
	whole := j.Size()
	write(t, j, "second", strings.Repeat("x", 600))
	_ = j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := whole; cut < int64(len(text)); cut++ {
		if near := int64(25); cut > whole+near && cut < int64(len(text))-near && cut%61 != 0 {
			continue // one place inside a long record is as good as the next
		}
		for _, filled := range []bool{false, true} {
			b := bytes.Clone(text[:cut])
			if filled {
				if int64(len(text))-cut < frameHead {
					continue // too few zeros to tell from damage
				}
				b = append(b, make([]byte, int64(len(text))-cut)...)
			}
			if err := os.WriteFile(path, b, 0o600); err != nil { // keeps the inode
				t.Fatal(err)
			}
			forgetCount(t, path)
			j, records := mustOpen(t, path)
			if !slices.Equal(records, []string{"first"}) {
				t.Fatalf("cut at %d, filled %v: %.60q", cut, filled, records)
			}
			write(t, j, "third")
			_ = j.Close()
			if _, records = mustOpenClosed(t, path); !slices.Equal(records, []string{"first", "third"}) {
				t.Fatalf("cut at %d, filled %v, then appended: %.60q", cut, filled, records)
			}
		}
	}
}

func mustOpenClosed(t *testing.T, path string) (*Journal, []string) {
	t.Helper()
	j, records := mustOpen(t, path)
	_ = j.Close()
	return j, records
}

// forgetCount lets a test put an old text into a journal.
func forgetCount(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path+".lock", 0); err != nil {
		t.Fatal(err)
	}
}

// Every bit counts: no damage goes unnoticed, and none is taken for a torn tail while
// a whole frame follows.
func TestDamageIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	write(t, j, "first")
	write(t, j, strings.Repeat("y", 40)+strings.Repeat("\x00", 600)+"z")
	end := j.Size()
	write(t, j, "last")
	_ = j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range end {
		b := bytes.Clone(text)
		b[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		forgetCount(t, path)
		_, records, err := open(path, "test")
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
			t.Fatalf("bit of byte %d changed: %.80q, %v", at, records, err)
		}
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j, _ := mustOpen(t, path)
	write(t, j, "first")
	if _, _, err := open(path, "test"); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	_ = j.Close()
	if _, _, err := open(path, "other"); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), `it belongs to "test", not to "other"`) {
		t.Errorf("of another kind: %v", err)
	}
	for name, text := range map[string]string{"empty": "", "text": "voters: a, b, c and a few more", "zeros": strings.Repeat("\x00", 5000)} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := open(p, "test"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := open(filepath.Join(dir, "no", "j"), "test"); err == nil {
		t.Error("a journal in no directory")
	}
	bad := errors.New("cannot be understood")
	if _, err := Open(path, "test", func([]byte) error { return bad }); !errors.Is(err, bad) || !errors.Is(err, ErrDamaged) {
		t.Errorf("a record that replay refuses: %v", err)
	}
}

func TestCopiesAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j, _ := mustOpen(t, path)
	write(t, j, "first")
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, j, "second")
	_ = j.Close()
	_, _ = mustOpenClosed(t, path)

	if err := os.WriteFile(filepath.Join(dir, "copy"), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(filepath.Join(dir, "copy"), "test"); !errors.Is(err, ErrCopied) {
		t.Errorf("a copy beside it: %v", err)
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil { // the same inode
		t.Fatal(err)
	}
	if _, _, err := open(path, "test"); !errors.Is(err, ErrCopied) {
		t.Errorf("a backup in its place: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	j, records := mustOpen(t, path)
	if len(records) > 0 || j.Opens() != 3 {
		t.Errorf("after its removal: %q, opened %d times", records, j.Opens())
	}
}

// Frames of one compaction may be more than one append allows.
func TestCompactSplitsIntoFrames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	big := bytes.Repeat([]byte("x"), MaxFrame/3)
	if err := j.Append(big, big, big, big); err == nil {
		t.Error("a frame above the limit was accepted")
	}
	if err := j.Compact(big, big, big, big); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	if _, records := mustOpen(t, path); len(records) != 4 {
		t.Errorf("%d records", len(records))
	}
}

func TestNothingIsWrittenAfterAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	write(t, j, "first")
	_ = j.file.Close() // as if the disk had failed
	if err := j.Append([]byte("second")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("append: %v", err)
	}
	if err := j.Compact(); err == nil {
		t.Error("compacted after an error")
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("a file was begun")
	}
}

// A crash between writing and renaming leaves a file that is in nobody's way.
func TestUnfinishedCompactionIsOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	write(t, j, "first")
	if err := os.WriteFile(path+".new", []byte(strings.Repeat("junk", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Compact([]byte("second")); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	if _, records := mustOpen(t, path); !slices.Equal(records, []string{"second"}) {
		t.Errorf("%q", records)
	}
}

func BenchmarkAppend(b *testing.B) {
	j, _, err := open(filepath.Join(b.TempDir(), "j"), "test")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	record := []byte(fmt.Sprintf("%0200d", 1))
	for b.Loop() {
		if err := j.Append(record); err != nil {
			b.Fatal(err)
		}
	}
}
