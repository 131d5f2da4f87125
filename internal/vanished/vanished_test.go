//go:build unix

package vanished_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"padme/internal/vanished"
)

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir, path string) error
		says   string // empty: all is well
		gone   bool
	}{
		"nothing":                {change: func(string, string) error { return nil }},
		"removed":                {change: func(_, path string) error { return os.Remove(path) }, says: "was removed", gone: true},
		"removed with directory": {change: func(dir, _ string) error { return os.RemoveAll(dir) }, says: "make the directory again"},
		"removed, and the directory made again": {change: func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
		}, says: "was removed", gone: true},
		"moved": {change: func(_, path string) error { return os.Rename(path, path+".old") }, says: "put it back"},
		"moved with directory": {change: func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
		}, says: "put it back"},
		"moved, and put back": {change: func(_, path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Rename(path+".old", path))
		}},
		"a copy in its place": {change: func(_, path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("x"), 0o600))
		}, says: "move that one away, then this process recreates its own"},
		"moved, and a copy in its place": {change: func(_, path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("x"), 0o600))
		}, says: "put this process's own back"},
		"another number, as on some file systems": {change: func(_, path string) error { return renumber(path, time.Time{}) }},
		"another number, and then written":        {change: func(_, path string) error { return renumber(path, time.Now().Add(time.Second)) }, says: "put this process's own back"},
		"a file in place of the directory": {change: func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, says: "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, "file")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := c.change(dir, path); err != nil {
				t.Fatal(err)
			}
			err = vanished.Look(file, path)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path)) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			if gone := vanished.Gone(err); gone != c.gone {
				t.Errorf("%v: gone %v", err, gone)
			}
			if unknown := vanished.Unknown(err); unknown != (c.says == "not a directory") {
				t.Errorf("%v: unknown %v", err, unknown)
			}
		})
	}
}

// A copy of a guard is noticed, though nobody writes it, unless the data is numbered otherwise as well.
func TestLookGuard(t *testing.T) {
	dir := t.TempDir()
	create := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	data, guard := create("data"), create("guard")
	look := func() error { return vanished.LookGuard(guard, guard.Name(), data, data.Name()) }
	if err := look(); err != nil {
		t.Errorf("nothing has happened: %v", err)
	}
	if err := renumber(guard.Name(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := look(); err == nil || !strings.Contains(err.Error(), "put this process's own back") {
		t.Errorf("a copy in its place: %v", err)
	}
	if err := renumber(data.Name(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := look(); err != nil {
		t.Errorf("all files have other numbers: %v", err)
	}
}

// renumber gives path a file of the same size, written at the same time unless written says when.
func renumber(path string, written time.Time) error {
	is, err := os.Stat(path)
	if err != nil {
		return err
	}
	if written.IsZero() {
		written = is.ModTime()
	}
	return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600), os.Chtimes(path, written, written))
}
