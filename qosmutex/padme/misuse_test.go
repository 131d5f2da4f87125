package padme

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// TestGrantToAHolder: a parent that grants what its child is inside of is wrong, and
// cannot end the child's process.
func TestGrantToAHolder(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B)", "request B", "manual")
	b := w.nodes["B"].machine
	refused(t, b, &protocol.Message{
		Kind: protocol.KindReply, From: b.parent.peer, To: b.self, Epoch: b.epoch, Link: b.parent.gen, Seq: b.parent.received + 1,
		ID: b.own[0].id, Resource: "x", Grant: protocol.Grant{Epoch: b.epoch, Number: 99},
		Fences: protocol.Fences{Next: 50, End: 51}, Session: b.session.number,
	}, ErrInvalid)
}

// TestWrongCalls makes calls that name no request, or one twice.
func TestWrongCalls(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"tree A(B)", "request B", "request A"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	b := w.nodes["B"]
	held := b.inside["x"].Ref
	waiting := w.nodes["A"].refs[0].ref
	for _, c := range []struct {
		name string
		n    *node
		in   protocol.Input
	}{
		{"no ref", b, protocol.Input{Kind: protocol.Acquire, Resource: "x"}},
		{"a ref twice", b, protocol.Input{Kind: protocol.Acquire, Resource: "x", Ref: held}},
		{"leave what is unknown", b, protocol.Input{Kind: protocol.Leave, Ref: 77}},
		{"leave what waits", w.nodes["A"], protocol.Input{Kind: protocol.Leave, Ref: waiting}},
		{"withdraw what is unknown", b, protocol.Input{Kind: protocol.Withdraw, Ref: 77}},
		{"withdraw what is inside", b, protocol.Input{Kind: protocol.Withdraw, Ref: held}},
		{"raise what is unknown", b, protocol.Input{Kind: protocol.Raise, Ref: 77}},
		{"raise what is inside", b, protocol.Input{Kind: protocol.Raise, Ref: held}},
		{"withdraw nothing", b, protocol.Input{Kind: protocol.Withdraw}},
	} {
		before := dump(c.n.machine)
		if err := c.n.machine.Step(w.clock(c.n), &c.in, &c.n.out); !errors.Is(err, ErrRef) {
			t.Errorf("%s: error %v, want ErrRef", c.name, err)
		}
		if dump(c.n.machine) != before {
			t.Errorf("%s: the machine changed", c.name)
		}
	}
	if err := b.machine.Step(w.clock(b), &protocol.Input{Kind: 200}, &b.out); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown input: error %v", err)
	}
}

// TestFull fills a queue: the next request is refused, its reason named, and there
// is room again when one has gone.
func TestFull(t *testing.T) {
	w := newWorld()
	w.maxWaiting = 3
	for _, line := range []string{"tree A(B C) fanout=4", "request A", "request B", "request B", "request C"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.nodes["A"].machine.Status().Counters.Excesses; n != [protocol.LimitEnd]uint64{protocol.LimitWaiting: 1} {
		t.Errorf("counted beyond limits: %v", n)
	}
	if c := w.nodes["C"]; len(c.refs) != 0 {
		t.Fatalf("the fourth request waits: %s", w.flush())
	}
	if got, want := w.trace[len(w.trace)-1], "C is refused x: too many waiting"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	for _, line := range []string{"withdraw B", "request C", "serve 1s", "rest"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	if w.failure != nil {
		t.Fatal(w.failure)
	}
}

// TestFullStaysFull changes the models while the queues are full: nobody who waits is refused.
func TestFullStaysFull(t *testing.T) {
	w := newWorld()
	w.maxWaiting = 3
	play(t, w, "tree A(B C) fanout=4", "request A", "request B", "request C", "models B fair-forward-forward-forward")
	if b, c := w.nodes["B"], w.nodes["C"]; len(b.refs) != 1 || len(c.refs) != 1 {
		t.Fatalf("refused: %s", strings.Join(w.trace, "\n"))
	}
	play(t, w, "serve 1s", "rest")
}

// TestReplyForAnotherSession sends B a grant for a request of its own which names
// a session that is not B's: it goes back unused, and B does not enter.
func TestReplyForAnotherSession(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"tree A(B C)", "request C", "request B"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	n := w.nodes["B"]
	b := n.machine
	msg := protocol.Message{
		Kind: protocol.KindReply, From: b.parent.peer, To: b.self, Epoch: b.epoch, Link: b.parent.gen, Seq: b.parent.received + 1,
		ID: b.own[0].id, Resource: "x", Grant: protocol.Grant{Epoch: b.epoch, Number: 99},
		Fences: protocol.Fences{Next: 50, End: 51}, Session: b.session.number + 1, Path: []protocol.Node{b.parent.peer},
	}
	if err := b.Step(w.clock(n), &protocol.Input{Kind: protocol.Receive, Message: &msg}, &n.out); err != nil {
		t.Fatal(err)
	}
	if len(n.out.Grants) > 0 || b.counters.Returned != 1 {
		t.Errorf("entered %v, returned %d", n.out.Grants, b.counters.Returned)
	}
	last := n.out.Messages[len(n.out.Messages)-1]
	if !slices.ContainsFunc(n.out.Messages, func(m protocol.Message) bool {
		return m.Kind == protocol.KindRelease && m.Flags&protocol.FlagReturned != 0 && len(m.Entries) == 0
	}) {
		t.Errorf("not sent back unused; last message %v", last.Kind)
	}
}
