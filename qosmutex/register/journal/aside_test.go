package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"padme/qosmutex/register/journal"
)

func TestSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "voter")
	open := func() (*journal.Journal, int, error) {
		n := 0
		j, err := journal.Open(path, "test", func([]byte) error { n++; return nil })
		return j, n, err
	}
	j, _, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
	opens := j.Opens()
	nothing := func() error { return nil }
	if _, err := journal.SetAside(path, nothing); !errors.Is(err, journal.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("while it is open: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if _, err := journal.SetAside(path, func() error {
		if _, _, err := open(); !errors.Is(err, journal.ErrInUse) {
			t.Errorf("opened while it is set aside: %v", err)
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	for i, want := range []string{path + ".reset-1", path + ".reset-2"} {
		aside, err := journal.SetAside(path, nothing)
		if err != nil || aside != want {
			t.Fatalf("%s, %v", aside, err)
		}
		if text, err := os.ReadFile(aside); err != nil || i == 0 && len(text) == 0 {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		j, n, err := open()
		if err != nil || n != 0 || j.Opens() <= opens {
			t.Fatalf("%d records, opened %d times after %d, %v", n, j.Opens(), opens, err)
		}
		opens = j.Opens()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.SetAside(path, nothing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}
