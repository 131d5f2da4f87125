package padme

import (
	"errors"
	"testing"

	"padme/qosmutex/protocol"
)

// TestANewRootKeepsTheRequestsOfThoseItHasNotHeard: a member that was cut off during a change of
// the root has a request that others passed on. If its grant is lost and the new root makes
// another token, before it has heard of the member, it keeps the request: the participants
// between them have sent it, and do not send it again.
func TestANewRootKeepsTheRequestsOfThoseItHasNotHeard(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D", "advance 8s", "crash A", "advance 3s", "manual")
	b := w.nodes["B"].machine
	if b.role != protocol.Root || len(b.children) == 0 {
		t.Fatal("B is not the root of others")
	}
	b.authority.inherit = protocol.Never - 1 // it waits for what others report
	l := b.children[0]
	id := protocol.RequestID{Node: protocol.Node{ID: "cut off", Incarnation: 1}, Clock: 1}
	msg := protocol.Message{
		Kind: protocol.KindRequest, From: l.peer, To: b.self, Epoch: b.epoch, Link: l.gen, Seq: l.received + 1,
		ID: id, Resource: "x", Hops: 2,
	}
	var out protocol.Output
	if err := b.Step(b.now, &protocol.Input{Kind: protocol.Receive, Message: &msg}, &out); err != nil {
		t.Fatal(err)
	}
	e := b.requests.get(id)
	if e == nil {
		t.Fatal("the request is not known")
	}
	r := b.resource("x")
	if e.state == waiting {
		e.q.remove(b.ordering(), e)
		e.state = served
	}
	r.tok.target, r.tok.phase, r.tok.recovery = id, below, &recovery{pending: []protocol.Node{l.peer}}
	report := protocol.Message{
		Kind: protocol.KindReport, From: l.peer, To: b.self, ID: id, Resource: "x", Grant: r.tok.grant, Verdict: protocol.VerdictNever,
	}
	if err := b.Step(b.now, &protocol.Input{Kind: protocol.Receive, Message: &report}, &out); err != nil {
		t.Fatal(err)
	}
	if b.requests.get(id) == nil {
		t.Error("the new root has forgotten the request")
	}
}

// A Goodbye of a former root about somebody else, which comes late, says nothing of what that
// root holds: whoever waits for it goes on waiting.
func TestAGoodbyeAboutAnotherIsNoSignOfItsSender(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C)", "manual")
	a, b, c := w.nodes["A"].machine, w.nodes["B"].machine.self, w.nodes["C"].machine.self
	a.authority.inherit, a.authority.awaited = a.now+protocol.Second, []protocol.Node{b}
	bye := protocol.Message{Kind: protocol.KindGoodbye, From: b, To: a.self, Epoch: a.epoch, Ended: c}
	var out protocol.Output
	if err := a.Step(a.now, &protocol.Input{Kind: protocol.Receive, Message: &bye}, &out); !errors.Is(err, ErrStale) || len(a.authority.awaited) != 1 {
		t.Errorf("%v: %v are awaited", err, a.authority.awaited)
	}
	bye.Ended = protocol.Node{}
	if _ = a.Step(a.now, &protocol.Input{Kind: protocol.Receive, Message: &bye}, &out); len(a.authority.awaited) != 0 {
		t.Errorf("it has said goodbye itself, and %v are awaited", a.authority.awaited)
	}
}

// TestAdoptedHoldIsReleasedWhileARootInherits: B holds below X when the root dies, and leaves once
// the next root knows of its hold. C does not wait for the others who may report.
func TestAdoptedHoldIsReleasedWhileARootInherits(t *testing.T) {
	for _, tree := range []string{"A(D(B C))", "A(D(X(B) C))", "A(D(X(Y(B)) C))"} {
		for _, models := range protocol.Combinations() {
			w := newWorld()
			w.quiet = true
			play(t, w, "tree "+tree+" fanout=8 models="+models.String(), "advance 1s", "request B", "request C", "advance 2s", "still", "crash A")
			w.nodes["D"].machine.under = ""
			play(t, w, "advance 1600ms", "appoint D", "advance 100ms", "leave B")
			if !w.nodes["D"].machine.inheriting() {
				t.Fatal("D does not inherit any more")
			}
			if !w.isIn("C") {
				t.Fatalf("%s %v: C is not inside", tree, models)
			}
			play(t, w, "leave C", "advance 5s", "serve 1s")
		}
	}
}
