package reliable

import (
	"errors"
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// However often an instance is disposed, what others have left of it is cleared once, again
// after a connection that may have lost that, and not remembered for longer.
func TestWhatOthersLeftIsClearedOnce(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, Historic: true, Transient: true, Depth: 1})
	there := map[string][]string{"k": {"w1", "w2", "w3"}, "l": {"w2"}, "m": {"w4"}}
	offline, clears := false, 0
	o := &n.s.out
	o.MaxLost = 2
	o.Left = func(_, key string) []string { return there[key] }
	o.Clear = func(string, string, string) error {
		if offline {
			return errors.New("offline")
		}
		clears++
		return nil
	}
	o.Cleared = func(_, key, writer string) {
		there[key] = slices.DeleteFunc(slices.Clone(there[key]), func(name string) bool { return name == writer })
	}
	expect := func(what string, cleared, leaving, left int) {
		t.Helper()
		r := n.s.retention
		if clears != cleared || len(r.leaving) != leaving || len(r.left) != left || len(r.others) != leaving+left {
			t.Errorf("%s: %d cleared, %d to be, %d remembered, %d known, want %d, %d, %d, %d", what, clears, len(r.leaving), len(r.left), len(r.others), cleared, leaving, left, leaving+left)
		}
		clears = 0
	}
	dispose := func(times int, key string) {
		t.Helper()
		for range times {
			if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7, Options: wire.Options{Status: wire.StatusDispose}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	offline = true
	dispose(100, "k")
	expect("offline", 0, 2, 0)
	offline = false
	n.s.Tick(time.Now())
	expect("online", 2, 0, 2)
	dispose(100, "k")
	expect("again", 0, 0, 2)
	n.s.Stale()
	n.s.Tick(time.Now())
	expect("after another connection", 2, 0, 2)
	dispose(1, "l")
	dispose(1, "m")
	expect("others", 2, 0, 2)
	if got := there["k"]; !slices.Equal(got, []string{"w1"}) { // that one is its own
		t.Errorf("left of what cannot be lost any more: %v", got)
	}
}
