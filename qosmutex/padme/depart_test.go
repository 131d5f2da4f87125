package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestChildrenHearThatTheirRootHasLeft: when nobody can be the root after it, its children
// do not go on believing in it, so one that leaves next waits for no answer.
func TestChildrenHearThatTheirRootHasLeft(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B fanout=3", "advance 5s")
	a, b := w.nodes["A"].machine, w.nodes["B"].machine
	b.candidate, a.sessionOf(b.self).candidate = false, false
	play(t, w, "depart A")
	if a.role != protocol.Departed {
		t.Fatalf("the root is %v, and nobody can succeed it", a.role)
	}
	if b.parent != nil {
		t.Error("its child believes in a root that has left")
	}
	play(t, w, "depart B")
	if b.role != protocol.Departed {
		t.Errorf("the child is %v: it waits for the answer of a root that has left", b.role)
	}
}

// TestRootLeavesWithItsHandover: a root that leaves waits for no answer once the record names
// its successor, which has all that it needs with the handover.
func TestRootLeavesWithItsHandover(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C fanout=3", "advance 5s", "manual", "depart A")
	if a := w.nodes["A"].machine; a.role != protocol.Departed {
		t.Errorf("the former root is %v", a.role)
	}
	play(t, w, "settle", "request C", "settle")
	if b, c := w.nodes["B"].machine, w.nodes["C"].machine; b.inheriting() || len(c.own) != 1 || c.own[0].state == waiting {
		t.Error("C waits for a root that waits for the one before")
	}
}
