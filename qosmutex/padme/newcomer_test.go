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

// TestNewcomerAfterAFounding: the new root knows of no request, so that whoever joins it
// first begins with a clock near 0. It does not stay before those of long ago.
func TestNewcomerAfterAFounding(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "tree A(B C) models=fair-forward-forward-forward fanout=4")
	for range 6000 {
		w.round(t, "BC")
	}
	play(t, w, "cut B", "cut C", "crash A", "advance 20s")
	clear(w.fences) // floors are the caller's business, and there are none here
	w.add("A", 0, "", true)
	w.settle()
	play(t, w, "join D p9 under=A")
	w.round(t, "D")
	play(t, w, "heal B", "heal C")
	entries := map[rune]int{}
	for range 2000 {
		for _, c := range w.round(t, "DBC") {
			entries[c]++
		}
	}
	if b, c, d := entries['B'], entries['C'], entries['D']; 4*d > 5*b || 4*d > 5*c {
		t.Errorf("entries of B %d, of C %d, of the newcomer %d: want about as many of each", b, c, d)
	}
	w.sound(t)
}
