package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func note(t *testing.T, j *Journal, record string) (grown bool) {
	t.Helper()
	if err := j.Note([]byte(record)); err != nil {
		t.Fatal(err)
	}
	return j.WantsUnsynced()
}

func unsyncedOf(j *Journal) (records []string, all bool) {
	list, all := j.Unsynced()
	for _, r := range list {
		records = append(records, string(r))
	}
	return records, all
}

func begin(t *testing.T, j *Journal, records ...string) {
	t.Helper()
	var list [][]byte
	for _, r := range records {
		list = append(list, []byte(r))
	}
	if err := j.BeginUnsynced(list...); err != nil {
		t.Fatal(err)
	}
}

func TestNextRunIsToldWhatWasNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	if records, all := unsyncedOf(j); all || records != nil {
		t.Errorf("a new journal has %q", records)
	}
	note(t, j, "before it began")
	begin(t, j, "a")
	note(t, j, "b")
	_ = j.Close() // what was noted is not taken back, as by a crash
	j, _ = mustOpen(t, path)
	if records, all := unsyncedOf(j); !all || !slices.Equal(records, []string{"a", "b"}) {
		t.Errorf("got %q, all: %v", records, all)
	}
	_ = j.Close() // it has begun no file
	j, _ = mustOpen(t, path)
	if records, all := unsyncedOf(j); all {
		t.Errorf("the run before has noted nothing, but %q counts", records)
	}
}

// The tail that a killed process has not written to its end was not acknowledged. Damage before
// it, a file of another machine, journal or kind, and one that something is missing of, count as
// nothing.
func TestWhatCannotBeReliedOn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, text []byte) []byte
		want   []string
		all    bool
	}{
		"whole":          {func(_ *testing.T, _ string, b []byte) []byte { return b }, []string{"a", "b"}, true},
		"cut short":      {func(_ *testing.T, _ string, b []byte) []byte { return b[:len(b)-1] }, []string{"a"}, true},
		"damaged":        {func(_ *testing.T, _ string, b []byte) []byte { b[len(b)-15] ^= 1; return b }, nil, false},
		"lost":           {func(_ *testing.T, _ string, b []byte) []byte { clear(b[len(b)-12:]); return b }, nil, false},
		"half lost":      {func(_ *testing.T, _ string, b []byte) []byte { clear(b[len(b)-2:]); return b }, nil, false},
		"empty":          {func(*testing.T, string, []byte) []byte { return nil }, nil, false},
		"another boot":   {func(_ *testing.T, path string, b []byte) []byte { return begunAt(b, "x"+Place(path), 1) }, nil, false},
		"an earlier run": {func(_ *testing.T, path string, b []byte) []byte { return begunAt(b, Place(path), 0) }, nil, false},
		"this run":       {func(_ *testing.T, path string, b []byte) []byte { return begunAt(b, Place(path), 2) }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			j, _ := mustOpen(t, path)
			begin(t, j, "a")
			note(t, j, "b")
			_ = j.Close()
			text, err := os.ReadFile(path + unsyncedSuffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+unsyncedSuffix, c.change(t, path, text), 0o600); err != nil {
				t.Fatal(err)
			}
			j, _ = mustOpen(t, path)
			if records, all := unsyncedOf(j); all != c.all || !slices.Equal(records, c.want) {
				t.Errorf("got %q, all: %v", records, all)
			}
		})
	}
}

// begunAt returns a file with another first frame.
func begunAt(text []byte, place string, opens uint64) []byte {
	first, _ := next(text)
	return append(frame(runPayload("test", place, opens)), text[frameHead+len(first):]...)
}

func TestNotesThatHaveGrownAreBegunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	begin(t, j)
	n := 0
	for !note(t, j, strings.Repeat("x", 10<<10)) {
		n++
	}
	if n < 90 || n > 110 {
		t.Errorf("grown after %d records of 10 KB", n)
	}
	begin(t, j, strings.Repeat("y", 2<<20))
	if note(t, j, "z") {
		t.Error("what still counts has it written again and again")
	}
	_ = j.Close()
	j, _ = mustOpen(t, path)
	if records, all := unsyncedOf(j); !all || len(records) != 2 || records[1] != "z" {
		t.Errorf("%d records, all: %v", len(records), all)
	}
}

// After an error the next run must not take it that all is there.
func TestNotesThatFail(t *testing.T) {
	for name, fail := range map[string]func(j *Journal) error{
		"note": func(j *Journal) error {
			readOnly(t, j)
			return j.Note([]byte("c"))
		},
		"append": func(j *Journal) error {
			_ = j.file.Close()
			return j.Append([]byte("c"))
		},
		"compact": func(j *Journal) error {
			return errors.Join(os.Mkdir(j.path+".new", 0o700), j.Compact([]byte("c")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			j, _ := mustOpen(t, path)
			begin(t, j, "a")
			if err := fail(j); err == nil || errors.Is(err, ErrUnnoted) != (name == "note") {
				t.Fatal(err)
			}
			if err := j.Note([]byte("d")); err != nil {
				t.Errorf("noting nothing any more: %v", err)
			}
			_ = j.Close()
			_ = os.Remove(path + ".new")
			j, _ = mustOpen(t, path)
			if records, all := unsyncedOf(j); all {
				t.Errorf("%q counts", records)
			}
		})
	}
}

// readOnly has nothing noted any more, but the file can be removed.
func readOnly(t *testing.T, j *Journal) {
	t.Helper()
	_ = j.notes.file.Close()
	var err error
	if j.notes.file, err = os.Open(j.path + unsyncedSuffix); err != nil {
		t.Fatal(err)
	}
}

// Where the file can neither be written nor be taken back, what it says would count: the journal
// is broken before anything else is acknowledged.
func TestNotesThatCannotBeTakenBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j, _ := mustOpen(t, filepath.Join(dir, "j"))
	begin(t, j, "a")
	readOnly(t, j)
	if err := os.Rename(dir, dir+".away"); err != nil { // as by a lost mount
		t.Fatal(err)
	}
	if err := j.Note([]byte("b")); err == nil || errors.Is(err, ErrUnnoted) {
		t.Errorf("note: %v", err)
	}
	if err := j.Append([]byte("c")); err == nil {
		t.Error("it goes on")
	}
}

// A file that cannot be begun again changes nothing: the old one is kept.
func TestNotesThatCannotBeBegunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := mustOpen(t, path)
	begin(t, j, "a")
	if err := os.Mkdir(path+unsyncedSuffix+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.BeginUnsynced(); !errors.Is(err, ErrUnnoted) {
		t.Errorf("got %v", err)
	}
	note(t, j, "b")
	_ = j.Close()
	j, _ = mustOpen(t, path)
	if records, all := unsyncedOf(j); !all || !slices.Equal(records, []string{"a", "b"}) {
		t.Errorf("got %q, all: %v", records, all)
	}
}
