package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// TestAScheduleThatComesAfterASearchBegan: a holder that was asked what became of the grants up
// to a number leaves by the root, also if a schedule of before comes only then. The others have
// answered that they refuse those grants.
func TestAScheduleThatComesAfterASearchBegan(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B(D E) C) models=level-forward-forward-direct", "request D", "manual")
	a, d := w.nodes["A"].machine, w.nodes["D"].machine
	tok := &d.find("x").tok
	if tok.phase != using {
		t.Fatal("D is not inside")
	}
	e := protocol.Scheduled{Number: tok.grant.Number + 1, ID: protocol.RequestID{Node: w.nodes["E"].machine.self, Clock: 9}, Fence: tok.fence + 1, Session: 1}
	grant := protocol.Grant{Epoch: d.epoch, Number: e.Number}
	var out protocol.Output
	for _, msg := range []protocol.Message{
		{Kind: protocol.KindSync, Flags: protocol.FlagDirect, From: a.self, To: d.self, ID: e.ID, Resource: "x", Grant: grant},
		{Kind: protocol.KindSchedule, From: a.self, To: d.self, Epoch: d.epoch, Resource: "x", Grant: grant, Schedule: []protocol.Scheduled{e}},
	} {
		if err := d.Step(d.now, &protocol.Input{Kind: protocol.Receive, Message: &msg}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if next := tok.ahead(); len(next) > 0 {
		t.Errorf("D is to send the token on to %v", next)
	}
}

// TestAGrantThatComesUpTwiceIsNoCycle: a relay returns the Reply that the root has sent for a
// direct message that may be lost. That one has arrived, so the token comes by later on the same
// grant, used, and the relay keeps its parent.
func TestAGrantThatComesUpTwiceIsNoCycle(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B(D C) E) models=level-forward-forward-direct",
		"request D", "request C p7", "request E p8", "hold A B", "leave D", "advance 800ms",
		"suspect C B", "advance 1s", "resume A B", "advance 1s", "manual", "leave C", "deliver C B")
	if b := w.nodes["B"].machine; b.parent == nil {
		t.Error("B has given up its parent")
	}
}
