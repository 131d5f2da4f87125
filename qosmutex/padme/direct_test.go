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

// TestAGrantThatNobodyGaveEndsTheTerm: a member that sends the token on with a grant of its own
// invention keeps its receiver from every grant of this term. The root hears of it when that one
// leaves, and wants another term, until it has one.
func TestAGrantThatNobodyGaveEndsTheTerm(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C) models=level-forward-forward-direct", "request B", "request C", "manual")
	a, c := w.nodes["A"].machine, w.nodes["C"].machine
	invented := protocol.Grant{Epoch: c.epoch, Number: 1<<64 - 1}
	direct := protocol.Message{
		Kind: protocol.KindReply, Flags: protocol.FlagDirect, From: w.nodes["B"].machine.self, To: c.self, ID: protocol.RequestID{Node: c.self, Clock: c.own[0].id.Clock},
		Epoch: c.epoch, Resource: "x", Grant: invented, Fences: protocol.Fences{Next: 5, End: 6}, Session: c.session.number,
	}
	step := func(m *Machine, in protocol.Input) (protocol.Output, error) {
		var out protocol.Output
		return out, m.Step(m.now, &in, &out)
	}
	if out, err := step(c, protocol.Input{Kind: protocol.Receive, Message: &direct}); err != nil || len(out.Grants) != 1 {
		t.Fatalf("%v: %d grants", err, len(out.Grants))
	}
	release := protocol.Message{Kind: protocol.KindRelease, From: c.self, To: a.self, Resource: "x", Grant: invented, ID: direct.ID}
	l := a.child(c.self)
	release.Link, release.Seq, release.Epoch = l.gen, l.received+1, a.epoch
	out, err := step(a, protocol.Input{Kind: protocol.Receive, Message: &release})
	if err == nil || out.Remembered != a.epoch.Number {
		t.Fatalf("%v: the root remembers term %d, its own is %d", err, out.Remembered, a.epoch.Number)
	}
	for n := a.beacon.number; a.beacon.number == n; { // until the next heartbeat
		if err := a.Step(a.now+a.heartbeat()/8, &protocol.Input{}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if out.Remembered != a.epoch.Number {
		t.Error("forgotten at the next heartbeat")
	}
}

// TestAFenceBelowOneThatWasHad: nor does it make one enter with a fence below one that it had.
func TestAFenceBelowOneThatWasHad(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C) models=level-forward-forward-direct", "request C", "leave C", "request B", "request C", "manual")
	c := w.nodes["C"].machine
	had := c.find("x").tok.fences.Next
	msg := protocol.Message{
		Kind: protocol.KindReply, Flags: protocol.FlagDirect, From: w.nodes["B"].machine.self, To: c.self, ID: c.own[0].id,
		Epoch: c.epoch, Resource: "x", Grant: protocol.Grant{Epoch: c.epoch, Number: 99}, Fences: protocol.Fences{Next: had - 1, End: had}, Session: c.session.number,
	}
	var out protocol.Output
	if err := c.Step(c.now, &protocol.Input{Kind: protocol.Receive, Message: &msg}, &out); err == nil || len(out.Grants) > 0 {
		t.Errorf("%v: %d grants with fence %d after %d", err, len(out.Grants), had-1, had)
	}
	msg.Fences = protocol.Fences{Next: had, End: had + 1}
	if err := c.Step(c.now, &protocol.Input{Kind: protocol.Receive, Message: &msg}, &out); err != nil || len(out.Grants) != 1 {
		t.Errorf("%v: %d grants with fence %d", err, len(out.Grants), had)
	}
}
