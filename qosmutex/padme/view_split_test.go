package padme

import (
	"testing"

	"padme/qosmutex/protocol"
)

// Voters that are cut off from each other, at the worst moments: there is one root, or
// none.

// split lets groups of participants, each a string of their names, hear only themselves.
func (w *world) split(groups ...string) {
	for i, group := range groups {
		for j, other := range groups {
			for _, from := range group {
				for _, to := range other {
					w.held[[2]string{string(from), string(to)}] = i != j
				}
			}
		}
	}
}

// until delivers one message after the other, and lets time pass where there is none,
// until done.
func (w *world) until(t *testing.T, done func() bool) {
	t.Helper()
	w.manual = true
	defer func() { w.manual = false }()
	for range 100_000 {
		if done() {
			return
		}
		next := -1
		for i, key := range w.pending {
			if !w.held[key] {
				next = i
				break
			}
		}
		if next < 0 {
			w.advance(10*protocol.Millisecond, false)
			continue
		}
		w.deliver(w.pending[next])
	}
	t.Fatal("it never comes to that")
}

// TestElectedKeepsTheVoters: whoever did not vote for the elected, and has not heard of
// it, is a voter all the same.
func TestElectedKeepsTheVoters(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D E voters=5 fanout=8", "advance 12s", "cut A", "cut E")
	b := w.nodes["B"].machine
	w.until(t, func() bool { return b.role == protocol.Root })
	w.split("BC", "ADE")
	play(t, w, "heal A", "heal E", "advance 10s")
	if b.role == protocol.Root {
		t.Error("B acts with two of five voters")
	}
	w.sound(t)
}

// TestVotersChangeOneByOne: those that become voters have no majority without the old
// ones before these have heard that they do.
func TestVotersChangeOneByOne(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3 fanout=8")
	a := w.nodes["A"].machine
	w.until(t, func() bool { return a.ballot != nil && len(a.ballot.of.voters) > 1 })
	w.held[[2]string{"B", "A"}], w.held[[2]string{"C", "A"}] = true, true
	play(t, w, "settle")
	w.split("A", "BC")
	play(t, w, "request A", "advance 8s")
	if a.role != protocol.Root {
		t.Error("A needs those that have confirmed nothing")
	}
	w.sound(t)
}

// TestRootThatHearsOnlyItself: a root that is cut off from its voters, but not from its
// own heartbeat, does not go on beside the one that they elect.
func TestRootThatHearsOnlyItself(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s", "request A")
	w.split("A", "BC")
	play(t, w, "advance 8s", "request C")
	w.sound(t)
	if len(w.nodes["C"].inside) != 1 {
		t.Error("C is not served")
	}
}

// TestConfirmationThatComesLate: it is worth no more than one that comes at once.
func TestConfirmationThatComesLate(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s", "request A", "hold B A", "hold C A", "advance 400ms",
		"hold A B", "hold A C", "advance 900ms", "resume B A", "hold B A", "advance 8s", "request C")
	w.sound(t)
	if len(w.nodes["C"].inside) != 1 {
		t.Error("C is not served")
	}
}

// TestOneVoteInEachNumber: when its promise is over, a voter may vote anew, but in a
// higher epoch.
func TestOneVoteInEachNumber(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s", "crash A", "manual")
	n := w.nodes["C"]
	c, b := n.machine, w.nodes["B"].machine
	number := protocol.NextView(c.ballot.epoch.Number)
	asks := func(from *Machine, number uint64) (voted bool) {
		t.Helper()
		w.advance(c.promiseSpan()+protocol.Millisecond, false)
		msg := protocol.Message{
			Kind: protocol.KindCanvass, From: from.self, To: c.self, Epoch: protocol.Epoch{Number: number, Tie: tie(from.self)},
			Sent: 1, Grant: protocol.Grant{Epoch: c.ballot.of.epoch, Number: c.ballot.of.version},
		}
		if err := c.Step(w.clock(n), &protocol.Input{Kind: protocol.Receive, Message: &msg}, &n.out); err != nil {
			t.Fatal(err)
		}
		for i := range n.out.Messages {
			if v := &n.out.Messages[i]; v.Kind == protocol.KindVote {
				return v.Flags&protocol.FlagRefused == 0
			}
		}
		t.Fatal("no answer")
		return false
	}
	if !asks(b, number) {
		t.Error("B does not get C's vote")
	}
	if asks(w.nodes["A"].machine, number) {
		t.Error("A and B get C's vote in one epoch number")
	}
	if !asks(w.nodes["A"].machine, number+1) {
		t.Error("A does not get C's vote in the next")
	}
}

// TestCandidateWithVotersOfBefore: it does not get the vote of one that knows of newer
// ones, who may do without it.
func TestCandidateWithVotersOfBefore(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s", "cut C", "advance 10s")
	if of := w.nodes["A"].machine.ballot.of; len(of.voters) != 1 {
		t.Fatalf("A does not decide alone, but %v", of.voters)
	}
	w.split("A", "BC")
	play(t, w, "heal C", "advance 10s")
	if a, c := w.nodes["A"].machine.role, w.nodes["C"].machine.role; a != protocol.Root || c == protocol.Root {
		t.Errorf("A is %v, C is %v", a, c)
	}
	w.sound(t)
}

// TestCandidateHearsOfNewerVoters: E has left, and of A, B, C and D the first three are
// to be voters, but only D hears of it before A dies. It is none of them, and is the only
// one who can say that B and C are enough.
func TestCandidateHearsOfNewerVoters(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D E voters=5 fanout=8", "advance 12s", "manual", "depart E")
	a, d := w.nodes["A"].machine, w.nodes["D"].machine
	w.until(t, func() bool { return len(a.ballot.of.voters) == 3 })
	w.held[[2]string{"A", "B"}], w.held[[2]string{"A", "C"}] = true, true
	play(t, w, "settle", "crash A")
	if b := w.nodes["B"].machine; len(b.ballot.of.voters) != 4 || len(d.ballot.of.voters) != 3 {
		t.Fatalf("B knows of %v, D of %v", b.ballot.of.voters, d.ballot.of.voters)
	}
	play(t, w, "advance 10s", "request D")
	w.sound(t)
	if len(w.nodes["D"].inside) != 1 {
		t.Error("D is not served")
	}
}

// TestVoterWithoutSettings: B is started again, attaches, and is named a voter, but hears
// neither that it was accepted nor what the settings are. It must not become the root: the
// topic would have no resources any more.
func TestVoterWithoutSettings(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s", "crash B", "advance 6s", "manual", "restart B")
	a, b := w.nodes["A"].machine, w.nodes["B"].machine
	down := [2]string{"A", "B"}
	w.until(t, func() bool {
		for len(w.channels[down]) > 0 && w.channels[down][0].Kind == protocol.KindAccept {
			w.disorder("lose", down)
		}
		return len(a.ballot.of.voters) == 3 && a.reign().confirmed && b.votes()
	})
	if b.settings.Version != 0 {
		t.Fatal("B knows the settings")
	}
	play(t, w, "crash A", "advance 20s", "request C")
	w.sound(t)
	if b := w.nodes["B"]; b.machine.settings.Version == 0 || len(w.nodes["C"].inside) != 1 {
		t.Errorf("settings %v, and C is inside %v", b.machine.settings, w.nodes["C"].inside)
	}
}

// TestVoterObjectsToAFounder: a voter that is cut off from its view keeps others from
// beginning a new one, for its own may go on.
func TestVoterObjectsToAFounder(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s")
	w.split("AB", "CF")
	play(t, w, "advance 5s")
	f := w.founder(t, "F", 9)
	w.start(t, f)
	play(t, w, "advance 30s")
	if f.machine.role != protocol.Founding || w.nodes["C"].machine.session.number != 0 {
		t.Errorf("F is %v, C has session %d", f.machine.role, w.nodes["C"].machine.session.number)
	}
	w.sound(t)
}

// TestSuccessorThatShowedItself: a former root that got any sign of its successor does not
// found the topic anew when it is cut off after that.
func TestSuccessorThatShowedItself(t *testing.T) {
	for _, sign := range []protocol.Message{
		{Kind: protocol.KindBeatAck},
		{Kind: protocol.KindLead, Number: 5},
	} {
		t.Run(sign.Kind.String(), func(t *testing.T) {
			w := newWorld()
			play(t, w, "grow A B C", "advance 8s", "priority C -1")
			n := w.nodes["A"]
			a, c := n.machine, w.nodes["C"].machine
			w.until(t, func() bool { return c.role == protocol.Root })
			w.split("A", "BC")
			sign.From, sign.To, sign.Epoch, sign.TTL, sign.Sent = c.self, a.self, c.epoch, w.timing.TTL, w.clock(n)
			if sign.Kind == protocol.KindLead {
				sign.Path = []protocol.Node{c.self, w.nodes["B"].machine.self}
			} else {
				sign.Session, sign.Number = a.session.number, uint64(a.session.asked)
			}
			if err := a.Step(w.clock(n), &protocol.Input{Kind: protocol.Receive, Message: &sign}, &n.out); err != nil {
				t.Fatal(err)
			}
			play(t, w, "advance 15s")
			if a.role == protocol.Root {
				t.Error("A is the root again, beside C")
			}
			w.sound(t)
		})
	}
}
