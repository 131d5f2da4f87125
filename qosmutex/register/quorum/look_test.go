//go:build unix

package quorum_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/journal"
	"padme/qosmutex/register/quorum"
	"padme/tests/capture"
)

// A voter whose directory is removed while it runs says so, at most once a minute, and recreates
// its file once the directory is there again: its next run votes, and has forgotten nothing.
func TestVoterOutlivesItsDirectory(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		log := &capture.Text{}
		v := f.startLogged("a", log, "a")
		settle()
		is := put(t, v, register.Write{Key: "crane", Value: []byte("1")})
		dir := filepath.Dir(f.file("a"))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "do not stop this process") {
			t.Errorf("%d errors: %s", n, log)
		}
		if r := v.Report(); r.Phase != "voting" || !strings.Contains(r.Vanished, "make the directory again") {
			t.Errorf("its report: %+v", r)
		}
		is = put(t, v, register.Write{Key: "crane", Old: is, Value: []byte("2")})
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if !strings.Contains(log.String(), "recreated") || v.Report().Vanished != "" {
			t.Errorf("the directory is there again: %+v, %s", v.Report(), log)
		}
		is = put(t, v, register.Write{Key: "crane", Old: is, Value: []byte("3")})
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		v, err := quorum.Start(f.options("a", []string{"a"}), port{f.n, "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = v.Close() }()
		if got := get(t, v, "crane"); string(got.Value) != "3" || got.Version != is {
			t.Errorf("after a restart: %q %v, not %v", got.Value, got.Version, is)
		}
	})
}

// replacedWithoutItsFile has d take the place of c while its file is elsewhere. back puts that back.
func replacedWithoutItsFile(t *testing.T, f *fleet) (d *quorum.Voter, back func()) {
	f.kill("c")
	d = f.start("d", "a", "b", "d")
	settle()
	file := f.file("d")
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(file, file+".old")
	if err := f.voters["a"].Replace(soon(t), "c", "d"); err != nil {
		t.Fatal(err)
	}
	return d, func() { move(file+".old", file) }
}

// A voter whose file is elsewhere takes the place of another one, and remembers that.
func TestVoterWithoutItsFileTakesAPlace(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		last := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		d, back := replacedWithoutItsFile(t, f)
		put(t, d, register.Write{Key: "crane", Old: last, Value: []byte("2")})
		for id := range maps.Clone(f.voters) {
			f.kill(id) // nobody else tells d what it knew
		}
		back()
		d = f.start("d", "a", "b", "d")
		if s := d.Status(); s.Phase != caspaxos.Voting || s.Config.Number != 2 {
			t.Errorf("its next run: %+v", s)
		}
	})
}

// A voter that knows more than can be appended at once says what to do when it ends, and that helps.
func TestVoterWithoutItsFileKnowsTooMuch(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		for i := range journal.MaxFrame/register.MaxValue + 1 {
			put(t, f.voters["a"], register.Write{Key: fmt.Sprint("crane ", i), Value: make([]byte, register.MaxValue)})
		}
		d, back := replacedWithoutItsFile(t, f)
		time.Sleep(time.Minute)
		if err := d.Err(); !errors.Is(err, journal.ErrTooMuch) || !strings.Contains(err.Error(), "put that back") {
			t.Errorf("it says %v", err)
		}
		f.kill("d")
		back()
		d = f.start("d", "a", "b", "d")
		time.Sleep(time.Minute)
		if s := d.Status(); s.Phase != caspaxos.Voting || s.Config.Number != 2 {
			t.Errorf("its next run: %+v", s)
		}
	})
}

// A voter without its directory goes on also when its file has grown.
func TestVoterWithoutItsDirectoryGoesOn(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		v := f.start("a", "a")
		settle()
		if err := os.RemoveAll(filepath.Dir(f.file("a"))); err != nil {
			t.Fatal(err)
		}
		var is register.Version
		for range 40 {
			is = put(t, v, register.Write{Key: "crane", Old: is, Value: make([]byte, register.MaxValue)})
		}
	})
}
