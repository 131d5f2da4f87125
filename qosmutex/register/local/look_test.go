//go:build unix

package local

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/qosmutex/register"
)

// The directory of a register is removed while it is open: once it is there again, all files are
// recreated, and the next process finds entries, members and signs of life.
func TestRegisterOutlivesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "register")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "", false)
	if recreated, err := r.Look(t.Context()); recreated != "" || err != nil {
		t.Fatalf("nothing has happened: %q, %v", recreated, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if res := r.CompareAndSet(t.Context(), register.Write{Key: "crane", Value: []byte("1")}); res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	note(t, r, "crane", "a", false)
	if recreated, err := r.Look(t.Context()); recreated != "" || err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the directory was removed: %q, %v", recreated, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if recreated, err := r.Look(t.Context()); recreated != path || err != nil {
		t.Errorf("the directory is there again: %q, %v", recreated, err)
	}
	note(t, r, "crane", "b", false)
	if err := r.Live(time.Minute); err != nil {
		t.Fatal(err)
	}
	r = reopen(t, r, path)
	if e, err := r.Get(t.Context(), "crane"); err != nil || string(e.Value) != "1" {
		t.Errorf("the next process reads %q, %v", e.Value, err)
	}
	if all := r.sortedMembers(t, "crane"); !slices.Equal(all, []string{"a", "b"}) {
		t.Errorf("the next process knows the members %q", all)
	}
	if last, ok := r.Lived(); !ok || last != time.Minute {
		t.Errorf("the last sign of life is %v, %v", last, ok)
	}
}

// Notes that cannot be recreated now are recreated later, and Look says so until then.
func TestNotesAreRecreatedOnceThatCanBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "", false)
	notes, obstacle := path+".members", path+".members.new"
	if err := errors.Join(os.Remove(notes), os.Mkdir(obstacle, 0o700)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if recreated, err := r.Look(t.Context()); recreated != "" || err == nil || !strings.Contains(err.Error(), notes) {
			t.Errorf("the notes cannot be recreated: %q, %v", recreated, err)
		}
		note(t, r, "crane", "a", false)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if recreated, err := r.Look(t.Context()); recreated != path || err != nil {
		t.Errorf("they can be recreated: %q, %v", recreated, err)
	}
	if all := reopen(t, r, path).sortedMembers(t, "crane"); !slices.Equal(all, []string{"a"}) {
		t.Errorf("the next process knows the members %q", all)
	}
}

// What another process has noted in the place of our notes stays, whatever we note, and our own do not
// count any more after an error, wherever they are.
func TestNotesOverwriteNoOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	notes := path + ".members"
	if err := errors.Join(os.Rename(notes, notes+".old"), os.WriteFile(notes, []byte("others"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.members.rewriteAt = 0
	note(t, r, "crane", "a", false)
	r.members.forget()
	if text, err := os.ReadFile(notes); err != nil || string(text) != "others" {
		t.Errorf("it has become %q, %v", text, err)
	}
	if text, err := os.ReadFile(notes + ".old"); err != nil || len(text) > 0 {
		t.Errorf("our own are %q, %v", text, err)
	}
}

// Notes that cannot be rewritten leave no half-written file on a full disk. They count, and say why they
// grow.
func TestNotesThatCannotBeRewrittenSayWhy(t *testing.T) {
	const full = "/dev/full"
	if runtime.GOOS != "linux" {
		t.Skip("a file that is always full is there on Linux only")
	}
	path := filepath.Join(t.TempDir(), "register")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	note(t, r, "crane", "", false)
	next := path + ".members.new"
	if err := os.Symlink(full, next); err != nil {
		t.Fatal(err)
	}
	r.members.rewriteAt = 0
	note(t, r, "crane", "a", false)
	if _, err := os.Lstat(next); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if err := r.Unrewritten(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it says %v", err)
	}
	if err := r.Unrewritten(); err != nil {
		t.Errorf("it says again: %v", err)
	}
	if all := reopen(t, r, path).sortedMembers(t, "crane"); !slices.Equal(all, []string{"a"}) {
		t.Errorf("the next process knows the members %q", all)
	}
}
