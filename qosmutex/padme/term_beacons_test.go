package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestBeaconsOfANewTerm: a new root that has heard few beacons numbers its own from
// there. Whoever heard more of the old root keeps its place all the same.
func TestBeaconsOfANewTerm(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "grow A B C p=A0,B2,C3 fanout=1", "join D p1", "advance 10s", "cut D", "advance 60s", "crash A", "heal D")
	for range 100 {
		w.advance(100*protocol.Millisecond, true)
		if m := w.nodes["C"].machine; m.role != protocol.Member {
			t.Fatalf("at %d ms C is %v: the root is %v", w.now/protocol.Millisecond, m.role, m.root)
		}
	}
	if c := w.nodes["C"].machine; w.nodes["D"].machine.role != protocol.Root || c.root.ID != "D" || c.parent.peer.ID != "B" {
		t.Fatalf("D is %v, C is below %v, and its root is %v", w.nodes["D"].machine.role, c.parent.peer, c.root)
	}
	w.sound(t)
}
