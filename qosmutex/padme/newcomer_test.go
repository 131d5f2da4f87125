package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// round lets everybody named leave and ask again, and a little time pass. It returns
// who was inside.
func (w *world) round(t *testing.T, names string) (entered string) {
	t.Helper()
	for _, c := range names {
		n := w.nodes[string(c)]
		if _, ok := n.inside["x"]; ok {
			entered += n.name
			if err := w.end(n, "leave", "x"); err != nil {
				t.Fatal(err)
			}
		}
		if len(n.refs) == 0 {
			if err := w.request(n, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.settle()
	}
	w.advance(10*protocol.Millisecond, true)
	return entered
}

// TestNewcomerTakesItsTurn: under Fair with Use the root enters often out of its turn,
// which drives its clock. Somebody who joins then is served among the others, and not
// when the clocks of all have come as far.
func TestNewcomerTakesItsTurn(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "tree A(B C) models=fair-forward-use-use fanout=4")
	for range 1000 {
		w.round(t, "ABC")
	}
	root, member := w.nodes["A"].machine.clock, w.nodes["B"].machine.clock
	if root < member+100 {
		t.Fatalf("the root's clock is %d, a member's %d: it was not driven", root, member)
	}
	play(t, w, "join D p9 under=A")
	for i := 0; ; i++ {
		if entered := w.round(t, "ABCD"); entered != "" && entered[len(entered)-1] == 'D' {
			break
		}
		if i == 30 {
			t.Fatal("the newcomer was not served among the first 30 rounds")
		}
	}
	w.sound(t)
}

// TestNewcomerToALargeClock: the first clock that a newcomer hears may be any, where a
// member refuses one that jumps by more than 2³².
func TestNewcomerToALargeClock(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "tree A(B) models=fair-forward-forward-forward fanout=4")
	for _, name := range []string{"A", "B"} {
		m := w.nodes[name].machine
		m.clock, m.servedClock = maxClockJump+9, maxClockJump+9
	}
	play(t, w, "join D p9 under=A")
	if entered := w.round(t, "D") + w.round(t, "D"); entered != "D" {
		t.Errorf("entered: %q, want D", entered)
	}
	w.sound(t)
}
