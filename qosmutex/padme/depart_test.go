package padme

import (
	"fmt"
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

// TestSuccessorLeavesWhileItIsNamed: a root does not let the child go that the record is about
// to name, or it would hand over to nobody.
func TestSuccessorLeavesWhileItIsNamed(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D fanout=3", "advance 5s", "request D", "advance 2300ms", "manual")
	a, b := w.nodes["A"], w.nodes["B"]
	w.record.root = nil // the register takes its time
	play(t, w, "depart A")
	do(t, a.machine, &protocol.Input{Kind: protocol.Yield, Node: b.machine.self})
	play(t, w, "depart B", "settle")
	if b.machine.role == protocol.Departed {
		t.Fatal("the successor was let go")
	}
	w.record.root = a
	w.write(b)
	if err := w.step(a, &protocol.Input{Kind: protocol.Succeeded, Lease: &protocol.Lease{Term: w.record.term}, Node: b.machine.self}); err != nil {
		t.Fatal(err)
	}
	play(t, w, "settle", "advance 500ms")
	if c, d := w.nodes["C"].machine, w.nodes["D"].machine; c.role != protocol.Root || len(d.own) != 1 {
		t.Errorf("C is %v, and D has %d holds", c.role, len(d.own))
	}
}

// TestNothingUnknownIsHandedOver: a root that inherits names no successor, although it has a
// child that could be one: that would take what it hears for all that there is.
func TestNothingUnknownIsHandedOver(t *testing.T) {
	w, b := inherits(t)
	play(t, w, "heal C", "advance 500ms")
	if c := b.bestChild(); !b.inheriting() || c == nil {
		t.Fatalf("inherits: %v, best child %v", b.inheriting(), c)
	}
	b.out = new(protocol.Output)
	b.wishSuccessor(b.bestChild())
	if b.out.Successor != (protocol.Node{}) {
		t.Errorf("%v is to be the root before all is known", b.out.Successor)
	}
}

// TestFirstRootLeavesEarly: a root that does not know yet who may hold, and of nobody to wait
// for, names its successor at once, which waits in its place.
func TestFirstRootLeavesEarly(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C fanout=3 fresh=true", "advance 500ms")
	a, b, c := w.nodes["A"].machine, w.nodes["B"].machine, w.nodes["C"].machine
	if !a.inheriting() {
		t.Fatal("the first root knows who may hold")
	}
	over := w.now + a.authority.inherit - w.clock(w.nodes["A"])
	play(t, w, "request C", "depart A", "advance 100ms")
	if a.role != protocol.Departed || b.role != protocol.Root {
		t.Fatalf("the former root is %v, its successor %v", a.role, b.role)
	}
	if !b.inheriting() || c.own[0].state != waiting {
		t.Fatal("the successor takes for known what its predecessor did not know")
	}
	if left := b.authority.inherit - w.clock(w.nodes["B"]); w.now+left > over {
		t.Errorf("the successor waits %v longer than its predecessor would have", w.now+left-over)
	}
	play(t, w, "depart B", "advance 100ms")
	if b.role != protocol.Departed || c.role != protocol.Root {
		t.Fatalf("the successor is %v, and C %v", b.role, c.role)
	}
	play(t, w, fmt.Sprintf("advance %dms", (over-w.now)/protocol.Millisecond+1))
	if c.inheriting() || c.own[0].state == waiting {
		t.Error("C waits for longer than the first root would have")
	}
}

// TestSuccessorWaitsForALongerTTL: a root may wait for longer than its own TTL asks for, because
// an earlier one had another. So does its successor, but for no more than the longest TTL.
func TestSuccessorWaitsForALongerTTL(t *testing.T) {
	for _, c := range []struct{ left, want protocol.Duration }{
		{20 * protocol.Second, 20 * protocol.Second},
		{20 * protocol.MaxTTL, protocol.LAN().WithTTL(protocol.MaxTTL).Grace()},
	} {
		w := newWorld()
		play(t, w, "grow A B C fanout=3 fresh=true", "advance 500ms")
		a, b := w.nodes["A"].machine, w.nodes["B"].machine
		a.authority.inherit = a.now + c.left
		play(t, w, "depart A", "advance 100ms")
		if left := b.authority.inherit - w.clock(w.nodes["B"]); !b.inheriting() || left < c.want-protocol.Second || left > c.want {
			t.Errorf("with %v to wait, the successor waits %v, want %v", c.left, left, c.want)
		}
	}
}
