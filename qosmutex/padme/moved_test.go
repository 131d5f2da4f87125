package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestMovedWhileItsParentAttachesAnew: D moves from E to A while E attaches to A again.
// E names D's request no more, so A must not fall back on E when D's way ends.
func TestMovedWhileItsParentAttachesAnew(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(E(D))", "request E", "request D", "manual")
	a, e, d := w.nodes["A"], w.nodes["E"].machine, w.nodes["D"].machine
	id := d.own[0].id
	hears := func(from *Machine, link uint64, msg protocol.Message) {
		t.Helper()
		msg.From, msg.To, msg.Epoch, msg.Link = from.self, a.machine.self, a.machine.epoch, link
		if err := a.machine.Step(w.clock(a), &protocol.Input{Kind: protocol.Receive, Message: &msg}, &a.out); err != nil {
			t.Fatalf("%v: %v", msg.Kind, err)
		}
	}
	again, fresh := e.parent.gen+1, d.parent.gen+1
	hears(e, again, protocol.Message{Kind: protocol.KindAttach, Session: e.session.number})
	hears(d, fresh, protocol.Message{Kind: protocol.KindAttach, Session: d.session.number})
	hears(d, fresh, protocol.Message{Kind: protocol.KindRequest, ID: id, Resource: "x", Hops: 1, Seq: 1})
	hears(e, again, protocol.Message{Kind: protocol.KindNamed, Seq: 1})
	hears(d, fresh, protocol.Message{Kind: protocol.KindWithdraw, ID: id, Resource: "x", Seq: 2})
	if a.machine.requests.get(id) != nil {
		t.Error("D's request lives on, and leads to E")
	}
}
