package padme

import (
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// TestHandoverAfterInheriting: what a former root knew is of no use once the time is
// over in which it may have been true.
func TestHandoverAfterInheriting(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C", "advance 5s", "crash A", "advance 20s")
	b := w.nodes["B"].machine
	if b.role != protocol.Root || b.inheriting() {
		t.Fatalf("B is %v, and inherits: %v", b.role, b.inheriting())
	}
	refused(t, b, &protocol.Message{
		Kind: protocol.KindHandover, From: b.authority.before, To: b.self, Epoch: b.epoch, Root: b.self,
		Sessions: []protocol.Node{{ID: "Z", Incarnation: 1}},
	}, ErrStale)
}

// TestNoSessionOutlivesTheRenewal: a root that could not renew its lease for a while
// gives sessions that end TTL after its last renewal, as the next root counts on.
func TestNoSessionOutlivesTheRenewal(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s")
	a, b := w.nodes["A"].machine, w.nodes["B"].machine
	a.authority.renewed = a.now - protocol.Second
	var out protocol.Output
	err := a.Step(a.now, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
		Kind: protocol.KindBeat, From: b.self, To: a.self, Epoch: a.epoch, Session: b.session.number, Attempt: b.session.asked, Sent: b.now,
	}}, &out)
	if err != nil || len(out.Messages) != 1 || out.Messages[0].Kind != protocol.KindBeatAck {
		t.Fatalf("%v, %+v", err, out.Messages)
	}
	if most := a.timing.TTL - protocol.Second; out.Messages[0].Valid > most {
		t.Errorf("the session lasts for %d ms, want at most %d", out.Messages[0].Valid/protocol.Millisecond, most/protocol.Millisecond)
	}
}

// TestGoodbyeIsNotHandedOver: a new root does not wait for a member that has left.
func TestGoodbyeIsNotHandedOver(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D fanout=4", "advance 5s")
	a, b, c := w.nodes["A"].machine, w.nodes["B"].machine, w.nodes["C"].machine
	a.sessionOf(c.self).goodbye = true
	var out protocol.Output
	for _, in := range []protocol.Input{
		{Kind: protocol.Yield, Node: b.self},
		{Kind: protocol.Succeeded, Node: b.self, Lease: &protocol.Lease{Term: a.epoch.Number + 1}},
	} {
		if err := a.Step(a.now, &in, &out); err != nil {
			t.Fatal(err)
		}
	}
	var named []string
	for i := range out.Messages {
		for _, s := range out.Messages[i].Sessions {
			named = append(named, s.ID)
		}
	}
	if slices.Sort(named); !slices.Equal(named, []string{"A", "D"}) {
		t.Errorf("%v are handed over as members with a session, want A and D", named)
	}
}
