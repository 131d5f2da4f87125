package padme

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"padme/qosmutex/protocol"
)

// lie sends a valid message from name to its parent, under its own name and as the next one
// on its link, that says what is not so.
func (w *world) lie(name string, kind protocol.Kind, fill func(*protocol.Message)) {
	n := w.nodes[name]
	m := n.machine
	n.out.Reset()
	m.out = &n.out
	msg := m.emitOn(m.parent, kind)
	msg.Resource = "x"
	fill(msg)
	m.commit(m.parent, msg)
	m.out = nil
	w.send(n, msg)
	w.settle()
}

// id is the newest request of name, as everybody may know it.
func (w *world) id(name string) protocol.RequestID {
	m := w.nodes[name].machine
	return protocol.RequestID{Node: m.self, Clock: m.lastName}
}

// grantOut is the grant of x that is out.
func (w *world) grantOut() protocol.Grant {
	for _, n := range w.nodes {
		if n.machine.role == protocol.Root {
			return n.machine.find("x").tok.grant
		}
	}
	return protocol.Grant{}
}

// isIn reports whether name is inside of x.
func (w *world) isIn(name string) bool { _, ok := w.nodes[name].inside["x"]; return ok }

// falseRelease says that the grant which is out has come to its end.
func (w *world) falseRelease(name string, flags protocol.Flags) {
	grant := w.grantOut()
	w.lie(name, protocol.KindRelease, func(m *protocol.Message) {
		m.Flags, m.ID, m.Grant, m.Fences = flags, protocol.RequestID{Node: w.nodes[name].machine.self, Clock: 1}, grant, protocol.Fences{Next: 1, End: 1}
	})
}

// TestFalseReleaseEndsNoHold: M says that others' grants are over, in words that are valid.
// Nobody enters while B is inside, and C enters once B has left.
func TestFalseReleaseEndsNoHold(t *testing.T) {
	const returned, repeated, retain = protocol.FlagReturned, protocol.FlagRepeated, protocol.FlagRetain
	for _, tree := range []string{
		"A(B C M)", "A(X(B M) C)", "A(X(Y(B) M) C)", "A(X(Y(B M) C) D)", "A(X(B) C M)", "A(X(B C) Y(M))", "A(X(Y(B C)) M)",
	} {
		for _, models := range protocol.Combinations() {
			if models.Release == protocol.Direct || models.Priority == protocol.Deadline {
				continue
			}
			for _, lies := range [][]protocol.Flags{{0}, {returned}, {repeated, 0}, {repeated, returned}, {retain, 0}, {0, 0, 0}} {
				w := newWorld()
				w.quiet = true
				play(t, w, "tree "+tree+" fanout=8 models="+models.String(), "advance 1s", "request M", "leave M", "request B", "request C")
				if !w.isIn("B") {
					t.Fatalf("%s %v: B is not inside", tree, models)
				}
				for _, flags := range lies {
					w.falseRelease("M", flags)
				}
				if w.isIn("C") || w.failure != nil {
					t.Fatalf("%s %v, Releases with flags %v: C is inside, and B has not left: %v", tree, models, lies, w.failure)
				}
				play(t, w, "advance 2s")
				if !w.isIn("B") || w.isIn("C") {
					t.Fatalf("%s %v, Releases with flags %v: B inside %v, C %v", tree, models, lies, w.isIn("B"), w.isIn("C"))
				}
				play(t, w, "leave B")
				if !w.isIn("C") {
					t.Fatalf("%s %v, Releases with flags %v: C did not enter when B left", tree, models, lies)
				}
				play(t, w, "leave C", "serve 1s", "advance 2s", "rest")
			}
		}
	}
}

// TestFalseReleaseOfWhoPasses: M says that the token comes back from it, while its parent X
// has it and is inside.
func TestFalseReleaseOfWhoPasses(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(X(M) C) fanout=8 models=fair-forward-use-use", "advance 1s", "request C", "request M", "request X", "leave C")
	if !w.isIn("X") {
		t.Fatal("X did not use the Reply that passes")
	}
	play(t, w, "request C")
	w.falseRelease("M", 0)
	if w.sound(t); w.isIn("C") {
		t.Fatal("C is inside, and X has not left")
	}
	play(t, w, "leave X", "serve 1s", "advance 2s", "rest")
}

// TestFalseReleaseDeletesNoRequest: M names the requests of others as served, on a grant that
// is over and on the present one. They are served in their turn.
func TestFalseReleaseDeletesNoRequest(t *testing.T) {
	for _, tree := range []string{"A(B C M D)", "A(X(B M D) C)", "A(X(Y(B D) M) C)", "A(X(B D) C M)"} {
		for _, models := range protocol.Combinations() {
			for _, flags := range []protocol.Flags{0, protocol.FlagRepeated, protocol.FlagReturned, protocol.FlagRetain} {
				w := newWorld()
				w.quiet = true
				play(t, w, "tree "+tree+" fanout=8 models="+models.String(), "advance 1s", "request M", "leave M", "request C", "request B", "request D")
				for _, number := range []uint64{1, w.grantOut().Number} {
					w.lie("M", protocol.KindRelease, func(m *protocol.Message) {
						m.Flags, m.ID, m.Grant = flags, w.id("B"), protocol.Grant{Epoch: m.Epoch, Number: number}
						m.Fences = protocol.Fences{Next: 1, End: 1}
						m.Entries = []protocol.Entry{{ID: w.id("B"), Fence: 1}, {ID: w.id("D"), Fence: 1}}
					})
				}
				for _, n := range w.nodes {
					for _, name := range []string{"B", "D"} {
						if m := n.machine; m.role == protocol.Root && m.climbs() && !m.Knows(w.id(name)) {
							t.Fatalf("%s %v, flags %v: the root has forgotten the request of %s", tree, models, flags, name)
						}
					}
				}
				play(t, w, "serve 2s", "advance 2s", "rest")
			}
		}
	}
}

// move has name take another parent.
func (w *world) move(name, to string) {
	n := w.nodes[name]
	m := n.machine
	m.under = to
	n.out.Reset()
	m.out = &n.out
	m.startJoin(0)
	m.attach(w.nodes[to].machine.self)
	out := slices.Clone(n.out.Messages)
	m.out = nil
	for i := range out {
		w.send(n, &out[i])
	}
	w.settle()
}

// TestWhoMovesWhileInsideIsReleased: B re-attaches elsewhere while it is inside, and leaves.
// C enters within the time of a few messages, whichever way the Release takes.
func TestWhoMovesWhileInsideIsReleased(t *testing.T) {
	for _, move := range []struct{ tree, to string }{
		{"A(X(B) Y C)", "Y"}, {"A(X(B) C)", "A"}, {"A(X(Y(B) Z) C)", "Z"}, {"A(X(Y(B)) C)", "X"}, {"A(B X C)", "X"}, {"A(X(B Y) C)", "Y"},
	} {
		for _, models := range protocol.Combinations() {
			w := newWorld()
			w.quiet = true
			play(t, w, "tree "+move.tree+" fanout=8 models="+models.String(), "advance 1s", "request B", "request C")
			w.move("B", move.to)
			if m := w.nodes["B"].machine; m.Parent().ID != move.to || !w.isIn("B") {
				t.Fatalf("%v %v: B is below %v, inside %v", move, models, m.Parent(), w.isIn("B"))
			}
			play(t, w, "leave B")
			if !w.isIn("C") {
				t.Fatalf("%v %v: C is not inside", move, models)
			}
			play(t, w, "leave C", "serve 1s", "advance 2s", "rest")
		}
	}
}

// TestFencesOfAChildAreThoseThatItGot: M leaves, and says that it leaves other fences than it
// was given, or used none. Its parent X, which Uses the Release, enters on none of those.
func TestFencesOfAChildAreThoseThatItGot(t *testing.T) {
	for _, says := range []func(given protocol.Fences) protocol.Fences{
		func(protocol.Fences) protocol.Fences { return protocol.Fences{Next: 1 << 62, End: 1<<62 + 100} },
		func(given protocol.Fences) protocol.Fences {
			return protocol.Fences{Next: given.Next + 1, End: 1 << 61}
		},
		func(given protocol.Fences) protocol.Fences { return protocol.Fences{Next: 1, End: given.End} },
		func(given protocol.Fences) protocol.Fences { return given },
	} {
		w := newWorld()
		play(t, w, "tree A(X(M) C) fanout=8 models=fair-forward-forward-use", "advance 1s", "request C", "leave C", "request M", "request X", "request C")
		m := w.nodes["M"].machine
		tok := &m.find("x").tok
		given := protocol.Fences{Next: tok.fence, End: tok.fences.End}
		tok.fences = says(given)
		w.nodes["X"].invalid++
		play(t, w, "leave M", "serve 1s", "advance 2s", "rest")
		if last := w.fences["x"]; last > 100 {
			t.Errorf("of %v M leaves %v, and somebody enters with fence %d", given, tok.fences, last)
		}
	}
}

// TestRequestInTheNameOfAnother: M sends Requests in B's name, before B asks or after, with
// the least priority, and may take them back. B is served as if there were none: by its own
// way, and under Level before D, which is less important.
func TestRequestInTheNameOfAnother(t *testing.T) {
	for _, tree := range []string{"A(B C M D)", "A(X(B) C M D)", "A(X(Y(B)) C M D)", "A(X(B M D) C)", "A(X(B D) Y(M) C)"} {
		for _, models := range protocol.Combinations() {
			for i := range 4 {
				before, takenBack := i/2 == 0, i%2 == 0
				w := newWorld()
				w.quiet = true
				play(t, w, "tree "+tree+" fanout=8 models="+models.String()+" p=B2,D5", "advance 1s", "request C")
				b := w.nodes["B"].machine
				id := protocol.RequestID{Node: b.self, Clock: max(b.clock, b.lastName) + 1}
				name := func(m *protocol.Message) { m.ID, m.Priority, m.Hops, m.Clock = id, 1<<40, 1, id.Clock }
				if before {
					w.lie("M", protocol.KindRequest, name)
				}
				play(t, w, "request B", "request D")
				if id != w.id("B") {
					t.Fatalf("B asks as %v, not %v", w.id("B"), id)
				}
				if !before {
					w.lie("M", protocol.KindRequest, name)
				}
				if takenBack {
					w.lie("M", protocol.KindWithdraw, name)
				}
				play(t, w, "leave C")
				if models.Priority == protocol.Level && !w.isIn("B") {
					t.Fatalf("%s %v, before %v, taken back %v: B is not inside, D %v", tree, models, before, takenBack, w.isIn("D"))
				}
				play(t, w, "serve 2s")
			}
		}
	}
}

// invent sends a datagram to the root from another incarnation of a participant.
func (w *world) invent(name string, incarnation uint64, msg protocol.Message) {
	for _, n := range w.nodes {
		if n.machine.role == protocol.Root {
			msg.From, msg.To, msg.Epoch = protocol.Node{ID: name, Incarnation: incarnation}, n.machine.self, n.machine.epoch
			_ = w.step(n, &protocol.Input{Kind: protocol.Receive, Message: &msg})
		}
	}
}

// TestInventedIncarnationsTakeOnePlace: M attaches under ever new incarnations, with ever
// better priorities, also with sessions, and takes no more than one place. M itself, B and C
// stay where they are or come back.
func TestInventedIncarnationsTakeOnePlace(t *testing.T) {
	for _, withSessions := range []bool{false, true} {
		w := newWorld()
		play(t, w, "tree A fanout=3", "join B p1", "join C p2", "join M p3", "advance 2s")
		a := w.nodes["A"].machine
		for i := range uint64(100) {
			msg := protocol.Message{Kind: protocol.KindAttach, Priority: -int64(i), Session: 1, Link: 1}
			if withSessions {
				w.invent("M", 1000+i, protocol.Message{Kind: protocol.KindBeat, Attempt: 1, Sent: protocol.Time(1000 + i)})
				if s := a.sessionOf(protocol.Node{ID: "M", Incarnation: 1000 + i}); s != nil {
					msg.Session = s.number
				}
			}
			w.invent("M", 1000+i, msg)
			if n := len(a.children); n > 3 {
				t.Fatalf("sessions %v: the root has %d children", withSessions, n)
			}
			w.settle()
		}
		if n := len(a.members); n > 2+maxOfOne {
			t.Fatalf("the root knows %d members, three of which there are", n)
		}
		if n := a.Status().Counters.Excesses[protocol.LimitIncarnations]; (n > 50) != withSessions {
			t.Errorf("sessions %v: %d invented ones are counted", withSessions, n)
		}
		play(t, w, "request B", "request C", "serve 1s", "advance 15s", "request B", "request C", "request M", "serve 1s", "rest")
		if n := len(a.members); n != 3 {
			t.Errorf("the root knows %d members, not 3", n)
		}
	}
}

// TestRestartsAreWelcome: somebody who is started again and again, more often than its
// sessions expire, takes part in the end, and nobody else waits for it.
func TestRestartsAreWelcome(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "tree A fanout=3", "join B p1", "join M p2", "advance 2s")
	for range 30 {
		play(t, w, "crash M", "restart M", "advance 100ms", "request B", "serve 1s")
	}
	play(t, w, "advance 5s", "request M", "serve 1s", "rest")
}

// TestOpenedAgainAndAgain: a program that opens the topic, enters, leaves and closes it, far more
// often than its sessions are forgotten, never waits for those.
func TestOpenedAgainAndAgain(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "tree A fanout=3", "advance 2s")
	for i := range 40 {
		w.add("M", 1, "", false)
		play(t, w, "advance 10ms", "request M")
		if !w.isIn("M") {
			t.Fatalf("opened %d times within %d ms: M is not inside", i+1, 10*(i+1))
		}
		play(t, w, "leave M", "depart M")
	}
	play(t, w, "advance 2s", "rest")
	if n := len(w.nodes["A"].machine.members); n != 0 {
		t.Errorf("the root knows %d members, not none", n)
	}
}

// TestRestartWithAnEarlierClock: the wall clock was set back before M started again, so its
// incarnation is below the one that has crashed. Its place does not wait for that one's session.
func TestRestartWithAnEarlierClock(t *testing.T) {
	for _, tree := range []string{"A(M)", "A(X(M))"} {
		w := newWorld()
		w.nextInc = 1000
		play(t, w, "tree "+tree, "advance 2s", "crash M")
		w.nextInc = 10
		play(t, w, "restart M")
		if role, _ := w.nodes["M"].machine.Term(); role != protocol.Member {
			t.Errorf("%s: M is %v", tree, role)
		}
		play(t, w, "request M", "serve 5s", "rest")
	}
}

// TestSessionsExpireInOnePass: the sessions of very many members end in one step.
func TestSessionsExpireInOnePass(t *testing.T) {
	w := newWorld()
	w.quiet = true
	play(t, w, "tree A(B)")
	a := w.nodes["A"].machine
	a.out = &w.nodes["A"].out
	for i := range maxSessions {
		if a.addSession(&memberSession{node: protocol.Node{ID: fmt.Sprintf("m%06d", i), Incarnation: 1}, number: 1 << 30, deadline: a.now}); len(a.members) != i+2 {
			t.Fatal("not added")
		}
	}
	a.nextExpiry = 0
	began := time.Now()
	w.step(w.nodes["A"], &protocol.Input{Kind: protocol.Tick})
	if took := time.Since(began); len(a.members) != 1 || took > 5*time.Second {
		t.Errorf("%d members are left after %v", len(a.members), took)
	}
}

// TestOnlyTheWayOfWhoMovedIsAsked: B re-attaches elsewhere while it is inside, and leaves. Under
// Use the root asks those on the way that the grant went, and not all members, one of which has
// died: C enters at once.
func TestOnlyTheWayOfWhoMovedIsAsked(t *testing.T) {
	for _, move := range []struct{ tree, to string }{
		{"A(X(B) Y C D E F G)", "Y"}, {"A(X(Y(B) Z) C D E F G)", "Z"}, {"A(X(Y(B)) C D E F G)", "X"}, {"A(B X C D E F G)", "X"},
	} {
		for _, models := range protocol.Combinations() {
			w := newWorld()
			w.quiet = true
			play(t, w, "tree "+move.tree+" fanout=8 models="+models.String(), "advance 1s", "request B", "request C")
			w.move("B", move.to)
			play(t, w, "crash D", "leave B")
			if !w.isIn("C") {
				t.Fatalf("%v %v: C is not inside", move, models)
			}
			for _, n := range w.nodes {
				if sent := n.machine.counters.Sent[protocol.KindSync]; sent > 4 {
					t.Errorf("%v %v: %d were asked", move, models, sent)
				}
			}
		}
	}
}

// TestReleasePastItsWayIsNotUsed: M sends its parent X a Release of a grant that X has never
// seen, with fences of its own. X, which Uses Releases and waits, does not enter on it.
func TestReleasePastItsWayIsNotUsed(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(X(M) B) fanout=8 models=fair-forward-forward-use", "advance 1s", "request B", "request X")
	grant := w.grantOut()
	w.lie("M", protocol.KindRelease, func(m *protocol.Message) {
		m.ID, m.Grant, m.Fences = w.id("B"), grant, protocol.Fences{Next: 1 << 61, End: 1<<61 + 9}
	})
	if w.sound(t); w.isIn("X") {
		t.Fatal("X is inside, and B has not left")
	}
	play(t, w, "leave B", "serve 1s", "advance 2s", "rest")
}
