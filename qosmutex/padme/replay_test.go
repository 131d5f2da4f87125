package padme

import (
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// TestGrantIsTakenOnce sends B, which waits again, the grant on which it was inside
// before, under a fresh number of its link: the token of that grant is at home.
func TestGrantIsTakenOnce(t *testing.T) {
	w := newWorld()
	for _, line := range []string{
		"tree A(B(D) C) models=level-forward-forward-forward", "request B", "leave B", "request C", "hold A B", "request B",
	} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	n := w.nodes["B"]
	b := n.machine
	for _, grant := range []protocol.Grant{b.find("x").tok.grant, {Epoch: b.epoch}} {
		msg := protocol.Message{
			Kind: protocol.KindReply, From: b.parent.peer, To: b.self, Epoch: b.epoch, Link: b.parent.gen, Seq: b.parent.received + 1,
			ID: b.own[0].id, Resource: "x", Grant: grant, Fences: protocol.Fences{Next: 50, End: 51}, Session: b.session.number,
		}
		err := b.Step(w.clock(n), &protocol.Input{Kind: protocol.Receive, Message: &msg}, &n.out)
		if err != nil || !slices.ContainsFunc(n.out.Messages, func(m protocol.Message) bool { return m.Kind == protocol.KindRequest }) {
			t.Errorf("grant %v: error %v, and B asks with %v, want its request: A thinks it served", grant, err, n.out.Messages)
		}
		if len(n.out.Grants) > 0 {
			t.Errorf("B entered on grant %v a second time", grant)
		}
	}
}

// TestProposalGoesUpOnce lets a change of models come to B from its child again and
// again, as it does in a cycle of parents: it goes round once.
func TestProposalGoesUpOnce(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"tree A(B(D))", "hold B A", "hold A B"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	n := w.nodes["B"]
	b := n.machine
	models := protocol.Models{Priority: protocol.Fair}
	l, sent := b.children[0], 0
	for range 3 {
		msg := protocol.Message{
			Kind: protocol.KindPropose, From: l.peer, To: b.self, Epoch: b.epoch, Link: l.gen, Seq: l.received + 1,
			Settings: protocol.Settings{Models: models, ModelsBy: "D"}, Flags: protocol.FlagChange,
		}
		if err := b.Step(w.clock(n), &protocol.Input{Kind: protocol.Receive, Message: &msg}, &n.out); err != nil {
			t.Fatal(err)
		}
		for i := range n.out.Messages {
			if n.out.Messages[i].Kind == protocol.KindPropose {
				sent++
			}
		}
	}
	if sent != 1 {
		t.Errorf("B passed it on %d times, want once", sent)
	}
}

// TestRepeatedBeaconIsNoSignOfLife keeps sending D the newest beacon that it has
// seen, as participants that hang below each other would for ever: D gives its
// parent up when it should.
func TestRepeatedBeaconIsNoSignOfLife(t *testing.T) {
	w := newWorld()
	if err := w.do("tree A(B(D))"); err != nil {
		t.Fatal(err)
	}
	w.advance(2*w.timing.Heartbeat, true)
	n := w.nodes["D"]
	d := n.machine
	beacon := protocol.Message{
		Kind: protocol.KindBeacon, From: d.parent.peer, To: d.self, Epoch: d.epoch, Root: d.root, Depth: d.depth - 1,
		Link: d.parent.gen, Seq: d.parent.received, Number: d.beacon.number, Path: d.ancestors,
	}
	w.held[[2]string{"B", "D"}] = true
	for end := w.now + w.timing.Grace() + 4*w.timing.Heartbeat; w.now < end; {
		if d.parent == nil {
			return
		}
		w.advance(w.timing.Heartbeat/4, true)
		if d.parent != nil {
			_ = w.step(n, &protocol.Input{Kind: protocol.Receive, Message: &beacon})
		}
	}
	t.Error("D stays below a parent of whose root it hears nothing new")
}
