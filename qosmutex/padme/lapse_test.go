package padme

import (
	"errors"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// A lapse seen by either side is final: the number is never valid again. Where
// clocks drift within their bound, each of the two sides would do; both are checked
// alone.

// holding makes a tree in which B is inside, and returns B and the root.
func holding(t *testing.T) (w *world, b, a *node) {
	t.Helper()
	w = newWorld()
	for _, line := range []string{"tree A(B C) models=level-forward-forward-forward", "request B"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	return w, w.nodes["B"], w.nodes["A"]
}

// TestLateHeartbeatRevivesNothing lets a heartbeat of B arrive after the root has
// ended B's session: the answer says so, and the root counts B as gone.
func TestLateHeartbeatRevivesNothing(t *testing.T) {
	w, b, a := holding(t)
	late := protocol.Message{
		Kind: protocol.KindBeat, From: b.machine.self, To: a.machine.self, Epoch: b.machine.epoch,
		Session: b.machine.session.number, Sent: w.clock(b), Attempt: b.machine.session.asked,
	}
	b.crashed = true
	w.advance(2*w.timing.Grace(), true)
	if a.machine.sessionOf(b.machine.self) != nil {
		t.Fatal("the session has not lapsed")
	}
	if err := a.machine.Step(w.clock(a), &protocol.Input{Kind: protocol.Receive, Message: &late}, &a.out); err != nil {
		t.Fatal(err)
	}
	if a.machine.sessionOf(b.machine.self) != nil {
		t.Error("the session lives again")
	}
	if !slices.ContainsFunc(a.out.Messages, func(m protocol.Message) bool {
		return m.Kind == protocol.KindBeatAck && m.To == b.machine.self && m.Flags&protocol.FlagExpired != 0 && m.Session == late.Session
	}) {
		t.Errorf("B is not told that its session is over: %v", a.out.Messages)
	}
}

// TestLateAnswerRevivesNothing lets the answer to a heartbeat arrive at B when B's
// session is over, though the heartbeat was sent late enough to prolong it. B has
// taken no step since, so that it must look at its clock before it looks at the
// message.
func TestLateAnswerRevivesNothing(t *testing.T) {
	w, b, a := holding(t)
	m := b.machine
	old, at := m.session, m.session.until+w.timing.TTL/2
	answer := protocol.Message{
		Kind: protocol.KindBeatAck, From: a.machine.self, To: m.self, Epoch: m.epoch,
		Session: old.number, Sent: at - w.timing.TTL + 1, Attempt: old.asked, TTL: w.timing.TTL, Valid: w.timing.TTL,
	}
	err := m.Step(at, &protocol.Input{Kind: protocol.Receive, Message: &answer}, &b.out)
	if !errors.Is(err, ErrStale) {
		t.Errorf("error %v, want ErrStale", err)
	}
	if len(b.out.Losses) != 1 {
		t.Errorf("the application lost %v, want its hold", b.out.Losses)
	}
	if at < m.ValidUntil() || m.session.number == old.number {
		t.Errorf("session %d is valid until %d at %d", m.session.number, m.ValidUntil(), at)
	}
}

// TestAskingAgainDoesNotProlong: who asks for a session again, because it has not heard the
// answer, is told of one that is as old as the first question. The root lapses it by that.
func TestAskingAgainDoesNotProlong(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C)")
	a := w.nodes["A"]
	m := a.machine
	asks := func() (answer protocol.Message) {
		ask := protocol.Message{Kind: protocol.KindBeat, From: protocol.Node{ID: "D", Incarnation: 9}, To: m.self, Sent: w.clock(a), Attempt: 3}
		if err := m.Step(w.clock(a), &protocol.Input{Kind: protocol.Receive, Message: &ask}, &a.out); err != nil {
			t.Fatal(err)
		}
		for i := range a.out.Messages {
			if answer = a.out.Messages[i]; answer.Kind == protocol.KindBeatAck && answer.To == ask.From {
				return answer
			}
		}
		return protocol.Message{}
	}
	number := asks().Session
	w.advance(w.timing.TTL-protocol.Millisecond, true)
	answer := asks()
	if answer.Session != number {
		t.Fatalf("the answer is %+v, want session %d again", answer, number)
	}
	until := answer.Sent + answer.Valid // as D believes
	w.advance(until-w.clock(a)-1, true)
	if s := m.sessionOf(answer.To); s == nil || s.number != number {
		t.Error("the root has lapsed a session that its member may still act under")
	}
	w.advance(w.timing.Grace(), true)
	if s := m.sessionOf(answer.To); s != nil {
		t.Error("a session that was never used outlives its first question by more than a grace")
	}
}

// TestOldQuestionEndsNoSession: a question that comes late, of before the one that its sender
// has its session by, does not end that session, which the sender may act under.
func TestOldQuestionEndsNoSession(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C)")
	a := w.nodes["A"]
	d := protocol.Node{ID: "D", Incarnation: 9}
	asks := func(number uint64, sent protocol.Time) {
		ask := protocol.Message{Kind: protocol.KindBeat, From: d, To: a.machine.self, Sent: sent, Attempt: number}
		_ = a.machine.Step(w.clock(a), &protocol.Input{Kind: protocol.Receive, Message: &ask}, &a.out) // the late one is stale
	}
	first := w.clock(a)
	asks(3, first)
	w.advance(protocol.Millisecond, true)
	asks(4, w.clock(a))
	session := a.machine.sessionOf(d).number
	asks(3, first)
	if s := a.machine.sessionOf(d); s == nil || s.number != session {
		t.Errorf("session %d has ended: %+v", session, s)
	}
}
