package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestDisplacedChildComesBackAbove: a child that was to leave and ranks above another by now
// has its place: then the other one is to leave, and not both, or each in turn for ever.
func TestDisplacedChildComesBackAbove(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A fanout=1", "join B p5", "hold A B", "join H p3")
	a, b := w.nodes["A"].machine, w.nodes["B"].machine
	l, h := a.child(b.self), a.child(w.nodes["H"].machine.self)
	if l == nil || h == nil || !l.leaving() || h.leaving() {
		t.Fatalf("B is not to leave for H: %v %v", l, h)
	}
	do(t, a, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
		Kind: protocol.KindAttach, From: b.self, To: a.self, Epoch: a.epoch, Link: l.gen + 1, Priority: 1, Session: a.sessionOf(b.self).number,
	}})
	if l, h = a.child(b.self), a.child(w.nodes["H"].machine.self); l.leaving() || !h.leaving() {
		t.Errorf("B is to leave: %v, H: %v", l.leaving(), h.leaving())
	}
}
