package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/journal"
	"padme/qosmutex/register/quorum"
)

func TestReplace(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		x := f.client("x", abc...)
		var last register.Version
		for i := range 50 {
			last = put(t, x, register.Write{Key: fmt.Sprint("k", i), Value: bytes.Repeat([]byte("x"), 20<<10)})
		}
		f.kill("c")
		if err := f.voters["a"].Replace(soon(t), "c", "d"); !errors.Is(err, register.ErrInvalid) {
			t.Errorf("by a voter that does not run: %v", err)
		}
		d := f.start("d", "a", "b", "d")
		unavailable(t, d, "a b")
		if s := d.Status(); s.Phase != caspaxos.Refused || s.Reason != caspaxos.ReasonVoters || strings.Join(s.Voters, "") != "abc" {
			t.Errorf("before it is enrolled: %+v", s)
		}
		if err := f.voters["a"].Replace(soon(t), "z", "d"); !errors.Is(err, register.ErrInvalid) {
			t.Errorf("of no voter: %v", err)
		}
		if err := f.voters["a"].Replace(soon(t), "c", "d"); err != nil {
			t.Fatal(err)
		}
		if e := get(t, d, "k49"); e.Version != last {
			t.Errorf("k49 is at %v, not %v", e.Version, last)
		}
		f.kill("a") // d counts
		last = put(t, x, register.Write{Key: "k49", Old: last, Value: []byte("2")})
		f.start("a", abc...) // the list that it was enrolled with
		c := f.start("c", abc...)
		unavailable(t, c, "")
		if s := c.Status(); s.Phase != caspaxos.Retired || s.Config.Number != 2 {
			t.Errorf("the voter that was replaced: %+v", s)
		}
		if e := get(t, f.voters["a"], "k49"); e.Version != last {
			t.Errorf("k49 is at %v, not %v", e.Version, last)
		}
	})
}

// A voter that lost its file is refused until an operator replaces it by itself.
func TestWipedVoterIsRefused(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		v := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		f.kill("b")
		wipe(t, f, "b")
		b := f.start("b", abc...)
		f.kill("c")
		unavailable(t, f.voters["a"], "b c")
		if s := b.Status(); s.Phase != caspaxos.Refused || s.Reason != caspaxos.ReasonWiped {
			t.Errorf("status %+v", s)
		}
		f.start("c", abc...)
		time.Sleep(time.Second)
		if err := f.voters["a"].Replace(soon(t), "b", "b"); err != nil {
			t.Fatal(err)
		}
		f.kill("c")
		if e := get(t, b, "crane"); e.Version != v {
			t.Errorf("crane is at %v, not %v", e.Version, v)
		}
	})
}

func wipe(t *testing.T, f *fleet, id string) {
	t.Helper()
	for _, path := range []string{f.file(id), f.file(id) + ".lock"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that was brought back by a tool that keeps the inode is known by the others.
func TestRestoredFileIsRefused(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.startAll()
		v := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		backup, err := os.ReadFile(f.file("b"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			v = put(t, f.voters["a"], register.Write{Key: "crane", Old: v, Value: []byte("2")})
		}
		synctest.Wait()
		f.kill("b")
		if err := os.WriteFile(f.file("b"), backup, 0o600); err != nil {
			t.Fatal(err)
		}
		b := f.start("b", abc...)
		time.Sleep(5 * time.Second)
		if s := b.Status(); s.Phase != caspaxos.Refused || s.Reason != caspaxos.ReasonRestored {
			t.Errorf("status %+v", s)
		}
		f.kill("c")
		unavailable(t, f.voters["a"], "b c")
	})
}

func TestStartRefuses(t *testing.T) {
	f := newFleet(t, 1)
	f.start("a", "a")
	f.kill("a")
	for want, change := range map[string]func(*quorum.Options){
		"2 voters: name 1, 3 or 5":     func(o *quorum.Options) { o.Voters = []string{"a", "b"} },
		`voter "a" is named twice`:     func(o *quorum.Options) { o.Voters = []string{"a", "b", "a"} },
		`"a" is not among the voters`:  func(o *quorum.Options) { o.Voters = []string{"b"} },
		"was enrolled with the voters": func(o *quorum.Options) { o.Voters = abc },
		`it is of "a", not of "b"`:     func(o *quorum.Options) { o.Self, o.Voters = "b", []string{"b"} },
		"Lease is -1ns":                func(o *quorum.Options) { o.Lease = -1 },
		"Drift is 1":                   func(o *quorum.Options) { o.Drift = 1 },
		"Timing.Probe is 0s":           func(o *quorum.Options) { o.Timing.Resend, o.Timing.Backoff = 1, 1 },
		"no such file or directory":    func(o *quorum.Options) { o.File += "/no/file" },
	} {
		o := f.options("a", []string{"a"})
		change(&o)
		if strings.HasPrefix(want, "no such") {
			o.File = f.dir + "/no/file"
		}
		if v, err := quorum.Start(o, port{f.n, o.Self}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
			if v != nil {
				_ = v.Close()
			}
		}
	}
	f.start("a", "a")
	if _, err := quorum.Start(f.options("a", []string{"a"}), port{f.n, "a"}); !errors.Is(err, journal.ErrInUse) {
		t.Errorf("started twice: %v", err)
	}
}

func TestClosed(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		a := f.start("a", abc...)
		failed := make(chan error)
		go func() { _, err := a.Get(t.Context(), "crane"); failed <- err }()
		synctest.Wait()
		f.kill("a")
		if err := <-failed; !errors.Is(err, register.ErrClosed) || !errors.Is(err, register.ErrUnavailable) {
			t.Errorf("in progress: %v", err)
		}
		if _, err := a.Get(t.Context(), "crane"); !errors.Is(err, register.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		if err := a.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
	})
}

func ExampleStart() {
	dir, err := os.MkdirTemp("", "voter")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// With one voter the transport carries nothing. Package inboxes has one for three.
	network := newNetwork(1)
	v, err := quorum.Start(quorum.Options{
		Self: "a", Voters: []string{"a"}, File: dir + "/voter", Lease: time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}, port{network, "a"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = v.Close() }()

	ctx := context.Background()
	crane, err := v.Get(ctx, "crane")
	if err != nil {
		panic(err)
	}
	res := v.CompareAndSet(ctx,
		register.Write{Key: "crane", Old: crane.Version, Value: []byte("root is A")},
		register.Write{Key: "lift", Value: []byte("root is A")})
	fmt.Println(res[0].Err, res[1].Err)
	fmt.Println(v.Status().Phase, v.Status().Missing)
	// Output:
	// <nil> <nil>
	// voting []
}
