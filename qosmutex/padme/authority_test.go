package padme

import (
	"bytes"
	"testing"

	"padme/qosmutex/protocol"
)

// do feeds a machine an input at its own time, which it must take.
func do(t *testing.T, m *Machine, in *protocol.Input) *protocol.Output {
	t.Helper()
	var out protocol.Output
	if err := m.Step(m.now, in, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestFencesStayBelowTheCeiling: the root hands out no fence that the record does not
// give it, asks for more before it has none left, and goes on when it has them.
func TestFencesStayBelowTheCeiling(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s")
	m := w.nodes["A"].machine
	end := m.find("x").tok.next + 2*maxDepth + 100
	m.authority.ceiling = end
	var highest, asked uint64
	enter := func() bool {
		out := do(t, m, &protocol.Input{Kind: protocol.Acquire, Ref: 1 << 20, Resource: "x"})
		asked = max(asked, out.WantCeiling)
		if len(out.Grants) == 0 {
			return false
		}
		highest = max(highest, out.Grants[0].Fence)
		do(t, m, &protocol.Input{Kind: protocol.Leave, Ref: 1 << 20})
		return true
	}
	for range 10_000 {
		if !enter() {
			break
		}
	}
	if highest == 0 || highest >= end || asked <= end {
		t.Errorf("it handed out fence %d and asked for fences up to %d, with a ceiling of %d", highest, asked, end)
	}
	l := protocol.Lease{Term: m.epoch.Number, Until: m.authority.until, Renewed: m.authority.renewed, Fences: protocol.Fences{End: asked + 1000}}
	if out := do(t, m, &protocol.Input{Kind: protocol.Extended, Lease: &l}); len(out.Grants) != 1 {
		t.Errorf("with more fences it grants %v, want the request that waited", out.Grants)
	}
}

// TestYieldOfWhichNothingCame: a root that has stopped for a successor whom the record
// does not name goes on once it has renewed its lease.
func TestYieldOfWhichNothingCame(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s")
	m, b := w.nodes["A"].machine, w.nodes["B"].machine.self
	do(t, m, &protocol.Input{Kind: protocol.Yield, Node: b})
	if out := do(t, m, &protocol.Input{Kind: protocol.Acquire, Ref: 1 << 20, Resource: "x"}); len(out.Grants) != 0 {
		t.Error("it grants while the record is written")
	}
	l := protocol.Lease{Term: m.epoch.Number, Until: m.authority.until, Renewed: m.authority.renewed}
	if out := do(t, m, &protocol.Input{Kind: protocol.Extended, Lease: &l}); len(out.Grants) != 1 {
		t.Error("it does not grant although it is the root still")
	}
}

// A root that has created the topic while others may do so in another register lets nobody in before
// something came back of what it has sent: as long as it is cut off, nobody has heard of it.
func TestNothingIsGrantedByARootOfWhichNobodyHasHeard(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s")
	m := w.nodes["A"].machine
	l := protocol.Lease{
		Term: m.epoch.Number + 1, Until: m.now + 1<<42, Renewed: m.now, TTL: m.timing.TTL, Unheard: true,
		Heard: m.now - m.grace() + m.timing.JoinWait, Fences: protocol.Fences{Next: 1 << 40, End: 1 << 41},
	}
	begun := m.now
	do(t, m, &protocol.Input{Kind: protocol.Appointed, Lease: &l})
	do(t, m, &protocol.Input{Kind: protocol.Acquire, Ref: 1 << 20, Resource: "x"})
	until := func(end protocol.Time) (granted int) {
		for m.now < end {
			var out protocol.Output
			if err := m.Step(m.now+m.timing.JoinWait/3, &protocol.Input{}, &out); err != nil {
				t.Fatal(err)
			}
			granted += len(out.Grants)
		}
		return granted
	}
	if until(begun+m.timing.Heartbeat*3) != 0 || m.Settled() {
		t.Error("it grants although nobody can have heard of it")
	}
	echo := func(sent protocol.Time) {
		do(t, m, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{Kind: protocol.KindBeat, From: m.self, To: m.self, Sent: sent}})
	}
	if echo(begun - 1); until(m.now+m.timing.Heartbeat) != 0 {
		t.Error("it grants although only something came back that it had sent before")
	}
	if echo(begun); until(m.now+m.grace()-m.timing.JoinWait) != 0 {
		t.Error("it grants although another one may have done so while it was not heard")
	}
	if until(m.now+m.timing.JoinWait*3/2) != 1 || !m.Settled() {
		t.Error("it grants nothing although it is heard")
	}
}

// Nor does it take back a grant that nobody has confirmed to it.
func TestARootThatIsCutOffTakesNoGrantBack(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s", "request B x")
	m := w.nodes["A"].machine
	lasting(t, m)
	do(t, m, &protocol.Input{Kind: protocol.Acquire, Ref: 1 << 20, Resource: "x"})
	var out protocol.Output
	granted := false
	for end := m.now + m.grace(); m.now < end; granted = granted || len(out.Grants) > 0 {
		if err := m.Step(m.WakeAt(), &protocol.Input{}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if granted {
		t.Error("it lets itself in for a member that may have its hold confirmed elsewhere")
	}
	do(t, m, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{Kind: protocol.KindBeat, From: m.self, To: m.self, Sent: m.called}})
	if err := m.Step(m.now+1, &protocol.Input{}, &out); err != nil || len(out.Grants) != 1 {
		t.Errorf("it lets nobody in although it hears itself and nobody else: %v, %v", out.Grants, err)
	}
}

// What is over counts as over at once in a state, unless the root is cut off: then it matters whether it
// was before the newest heartbeat, which comes back.
func TestStateKnowsWhatIsOver(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s")
	m := w.nodes["A"].machine
	before, after := m.Clone(), m.Clone()
	before.members[0].deadline, after.members[0].deadline = m.called-1, m.called+1
	now := m.called + 2
	if bytes.Equal(stateOf(before, now), stateOf(after, now)) {
		t.Error("two states are the same in which the next heartbeat that comes back does different things")
	}
}

// lasting gives a root a lease without an end.
func lasting(t *testing.T, m *Machine) {
	l := protocol.Lease{Term: m.epoch.Number, Until: m.now + 1<<42, Renewed: m.now + 1<<42, Fences: protocol.Fences{End: m.authority.ceiling}}
	do(t, m, &protocol.Input{Kind: protocol.Extended, Lease: &l})
}

// A root that is cut off ends nobody's session, and lets nobody in for one that is silent: that member
// may have gone over to a root of another register. Nor does it just after it is back, as that one may
// have something to say.
func TestARootThatIsCutOffEndsNoSession(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B", "advance 5s", "request B x", "advance 500ms")
	m := w.nodes["A"].machine
	echo := m.now
	lasting(t, m)
	do(t, m, &protocol.Input{Kind: protocol.Acquire, Ref: 1 << 20, Resource: "x"})
	var sent protocol.Time // the newest that it has sent to itself
	until := func(end protocol.Time) (granted int) {
		for m.now < end {
			var out protocol.Output
			if err := m.Step(min(end, m.now+m.timing.JoinWait/3), &protocol.Input{}, &out); err != nil {
				t.Fatal(err)
			}
			granted += len(out.Grants)
			for _, msg := range out.Messages {
				if msg.Kind == protocol.KindBeat {
					sent = msg.Sent
				}
			}
		}
		return granted
	}
	heard := func() *protocol.Output {
		return do(t, m, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{Kind: protocol.KindBeat, From: m.self, To: m.self, Sent: sent}})
	}
	if until(m.now+2*m.grace()) != 0 || len(m.members) != 1 {
		t.Error("it ends the session of a member of which it could hear nothing")
	}
	if end := m.heldUntil(); end > echo+m.timing.TTL {
		t.Errorf("its own holds are valid for %d after it has heard itself, not %d", end-echo, m.timing.TTL)
	}
	do(t, m, &protocol.Input{Kind: protocol.Reconnect})
	back := m.now
	until(m.now + 1)
	if heard(); until(back+m.timing.JoinWait-1) != 0 || len(m.members) != 1 {
		t.Error("it ends that session before another root could tell it that it is there")
	}
	granted := until(back + m.timing.JoinWait + 2)
	heard()
	if granted += until(m.now + 1); granted != 1 || len(m.members) != 0 {
		t.Error("it does not end that session although it hears itself and nobody else")
	}
}

// successorOf makes a departing root name its successor.
func successorOf(t *testing.T, change func(b *memberSession)) protocol.Node {
	t.Helper()
	w := newWorld()
	play(t, w, "grow A B C fanout=3", "advance 5s")
	a, b := w.nodes["A"].machine, w.nodes["B"].machine
	change(a.sessionOf(b.self))
	return do(t, a, &protocol.Input{Kind: protocol.Depart}).Successor
}

// TestSuccessorCanBeTheRoot: whoever cannot be the root, or has said goodbye, is not
// named, however important.
func TestSuccessorCanBeTheRoot(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*memberSession)
		want   string
	}{
		"the most important":    {func(*memberSession) {}, "B"},
		"it has said goodbye":   {func(b *memberSession) { b.goodbye = true }, "C"},
		"it cannot be the root": {func(b *memberSession) { b.candidate = false }, "C"},
	} {
		if got := successorOf(t, c.change); got.ID != c.want {
			t.Errorf("%s: %v is named, want %s", what, got, c.want)
		}
	}
}

// inherits makes B the root after A, of whose term it knows nothing yet.
func inherits(t *testing.T) (w *world, b *Machine) {
	t.Helper()
	w = newWorld()
	play(t, w, "grow A B C D fanout=4", "advance 8s", "still", "crash A", "cut C", "cut D", "appoint B")
	b = w.nodes["B"].machine
	if !b.inheriting() || b.authority.before.IsZero() {
		t.Fatal("B does not inherit")
	}
	return w, b
}

// TestHandoverOfAnotherTerm: what the root before knew when it handed over another time
// is not what it knew last, and nobody else knows it.
func TestHandoverOfAnotherTerm(t *testing.T) {
	w, b := inherits(t)
	old := b.epoch
	old.Number--
	for _, wrong := range []protocol.Message{
		{From: b.authority.before, Epoch: old},
		{From: w.nodes["C"].machine.self, Epoch: b.epoch},
	} {
		wrong.Kind, wrong.To = protocol.KindHandover, b.self
		refused(t, b, &wrong, ErrStale)
	}
}

// TestFirstReportOfAHold: a hold that was reported is not another member's.
func TestFirstReportOfAHold(t *testing.T) {
	w, b := inherits(t)
	c, d := w.nodes["C"].machine.self, w.nodes["D"].machine.self
	grant := protocol.Grant{Epoch: b.epoch, Number: 1}
	grant.Epoch.Number--
	for _, n := range []protocol.Node{c, d} {
		do(t, b, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
			Kind: protocol.KindBeat, From: n, To: b.self, Epoch: b.epoch, Session: 7, Sent: 1,
			Tokens: []protocol.TokenState{{Resource: "x", Fence: 1, Grant: grant, Target: protocol.RequestID{Node: n, Clock: 1}}},
		}})
	}
	if tok := &b.find("x").tok; tok.target.Node != c || *tok.passed != c {
		t.Errorf("x is with %v by the grant for %v, want C, which has reported it first", *tok.passed, tok.target.Node)
	}
}

// TestWhoIsAwaited: a new root waits for a member until that has shown itself in its term:
// a question of an earlier one may come late, and its sender hold something since.
func TestWhoIsAwaited(t *testing.T) {
	w, b := inherits(t)
	c, d := w.nodes["C"].machine.self, w.nodes["D"].machine.self
	b.await([]protocol.Node{b.self, c, d})
	old := b.epoch
	old.Number--
	refused(t, b, &protocol.Message{Kind: protocol.KindBeat, From: c, To: b.self, Epoch: old, Sent: 1}, ErrStale)
	do(t, b, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{Kind: protocol.KindBeat, From: c, To: b.self, Epoch: b.epoch, Sent: 1}})
	if !b.inheriting() {
		t.Fatal("it does not wait for D")
	}
	var out protocol.Output
	goodbye := protocol.Message{Kind: protocol.KindGoodbye, From: d, To: b.self, Epoch: b.epoch, Session: 7}
	if _ = b.Step(b.now, &protocol.Input{Kind: protocol.Receive, Message: &goodbye}, &out); b.inheriting() {
		t.Error("it waits for D, which has said goodbye")
	}
}

// TestConfirmation: the root confirms a provisional grant only to whom it was for, and
// if that very grant is named.
func TestConfirmation(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C models=level-forward-forward-forward", "advance 5s", "hold B A", "request B")
	a, b, c := w.nodes["A"].machine, w.nodes["B"].machine, w.nodes["C"].machine
	play(t, w, "resume B A", "hold B A")
	tok := &a.find("x").tok
	if tok.until == 0 {
		t.Fatal("the grant is not provisional")
	}
	names := func(m *Machine, grant protocol.Grant) {
		do(t, a, &protocol.Input{Kind: protocol.Receive, Message: &protocol.Message{
			Kind: protocol.KindBeat, From: m.self, To: a.self, Epoch: a.epoch, Session: m.session.number, Attempt: m.session.asked, Sent: m.now,
			Tokens: []protocol.TokenState{{Resource: "x", Grant: grant, Target: tok.target, Fence: 1}},
		}})
	}
	before := tok.grant
	before.Number--
	for _, wrong := range []func(){func() { names(c, tok.grant) }, func() { names(b, before) }} {
		if wrong(); tok.until == 0 {
			t.Error("it is confirmed to another, or by another grant")
		}
	}
	if names(b, tok.grant); tok.until != 0 {
		t.Error("it is not confirmed")
	}
}

// TestSearchWhileInheriting: that all whom the root knows have answered ends no search
// while there may be others.
func TestSearchWhileInheriting(t *testing.T) {
	_, b := inherits(t)
	r := b.find("x")
	r.tok.recovery = &recovery{all: true}
	b.out = new(protocol.Output)
	if b.concludeIfDone(r); r.tok.phase != below {
		t.Fatal("the token is regenerated although a member that is not known yet may have it")
	}
	if b.inherited(); r.tok.phase != home {
		t.Error("the token is not regenerated although all are known")
	}
}
