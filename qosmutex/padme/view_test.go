package padme

import (
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// play runs lines of a scenario.
func play(t *testing.T, w *world, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := w.do(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if w.failure != nil {
		t.Fatal(w.failure)
	}
}

// TestRootThatIsLeftAloneAndCutOff: voters that left for good elect nobody, but do
// not keep the root in office either if it hears nothing, for somebody may found the
// topic anew.
func TestRootThatIsLeftAloneAndCutOff(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s")
	a := w.nodes["A"].machine
	play(t, w, "depart B", "depart C")
	if !a.pledgeOf(w.nodes["C"].machine.self).gone {
		t.Fatal("nobody left for good")
	}
	a.now += a.timing.TTL // in which nothing comes back
	if most := a.lease.sent + a.timing.TTL; a.leaseEnd() > most {
		t.Errorf("the lease ends %v after the last echo", a.leaseEnd()-a.lease.sent)
	}
}

// TestVotersOfWhoNamesNone: a root that is to name no voters may have some, of the
// root before it. It must not be left with those that are gone.
func TestVotersOfWhoNamesNone(t *testing.T) {
	for _, most := range []uint8{0, 1, 2} {
		w := newWorld()
		play(t, w, "grow A B C D E voters=5", "advance 8s")
		w.nodes["B"].machine.maxVoters = most
		play(t, w, "crash A", "advance 10s")
		b := w.nodes["B"].machine
		if b.role != protocol.Root || len(b.ballot.of.voters) != 1 {
			t.Errorf("at most %d: %v has the voters %v", most, b.role, b.ballot.of.voters)
		}
		play(t, w, "crash C", "crash D", "advance 10s", "request B")
		if len(w.nodes["B"].inside) != 1 {
			t.Errorf("at most %d: B cannot go on alone", most)
		}
	}
}

// TestFencesOfAFormerRoot: whoever was the root tells the one that it votes for what
// it has handed out itself.
func TestFencesOfAFormerRoot(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s", "request A", "leave A")
	n := w.nodes["A"]
	a := n.machine
	a.find("x").tok.next = 5 * reservedFences // and C has heard of no reservation since the first
	play(t, w, "cut A", "advance 1600ms")
	if a.role == protocol.Root {
		t.Fatal("A is the root still")
	}
	c := w.nodes["C"].machine
	bid := protocol.Epoch{Number: protocol.NextView(a.ballot.epoch.Number), Tie: tie(c.self)}
	msg := protocol.Message{
		Kind: protocol.KindCanvass, From: c.self, To: a.self, Epoch: bid, Sent: c.now,
		Grant: protocol.Grant{Epoch: c.ballot.of.epoch, Number: c.ballot.of.version},
	}
	if err := a.Step(w.clock(n), &protocol.Input{Kind: protocol.Receive, Message: &msg}, &n.out); err != nil {
		t.Fatal(err)
	}
	vote := n.out.Messages[0]
	if vote.Kind != protocol.KindVote || vote.Flags&protocol.FlagRefused != 0 {
		t.Fatalf("no vote: %+v", vote)
	}
	if vote.Fences.End < 5*reservedFences {
		t.Errorf("C is told to begin at %d", vote.Fences.End)
	}
}

// TestFenceFloorIsHandedOver: the root of an open topic that has no resource yet
// hands over the floor of its fences all the same.
func TestFenceFloorIsHandedOver(t *testing.T) {
	w := newWorld()
	w.settings.Resources = nil
	play(t, w, "grow A B voters=0 open=true")
	w.nodes["A"].machine.fences = 1000
	play(t, w, "priority B -1", "advance 6s", "request B door")
	if got := w.nodes["B"].machine.find("door"); got == nil || w.nodes["B"].machine.role != protocol.Root || got.tok.fence < 1000 {
		t.Errorf("B is %v and has %+v", w.nodes["B"].machine.role, got)
	}
}

// TestOnlyAnActingRootHandsOver: a root that no majority has confirmed yet has nothing
// to give away, and no session to give itself.
func TestOnlyAnActingRootHandsOver(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s")
	a := w.nodes["A"].machine
	a.out = &protocol.Output{}
	a.reign().started = false
	if a.handOver(a.bestChild()) {
		t.Error("A hands over what it does not have")
	}
	a.reign().started = true
	if !a.handOver(a.bestChild()) {
		t.Error("A does not hand over")
	}
}

// TestVoteThenGoodbye: whoever gave its vote to another and leaves is not counted as a
// voter that left for good without having promised anything.
func TestVoteThenGoodbye(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3", "advance 8s")
	a, c := w.nodes["A"].machine, w.nodes["C"].machine
	c.ballot.root = w.nodes["B"].machine.self // its vote, which A has not heard of
	play(t, w, "depart C")
	if a.pledgeOf(c.self).gone {
		t.Error("A counts a vote that is another's")
	}
	if s := a.sessionOf(c.self); s == nil || !s.goodbye {
		t.Error("its session goes on")
	}
}

// TestTwoRootsBecomeOne: who goes on without a majority may be a root beside another.
// When they hear of each other again, the one of the older view gives way.
func TestTwoRootsBecomeOne(t *testing.T) {
	for _, heard := range []string{"A", "B"} { // who connects anew
		w := newWorld()
		for _, line := range []string{
			"grow A B C voters=3 goon=true", "advance 8s", "hold A B", "hold A C", "hold B A", "hold C A", "advance 30s",
		} {
			if err := w.do(line); err != nil {
				t.Fatal(err)
			}
		}
		if w.nodes["A"].machine.role != protocol.Root || w.nodes["B"].machine.role != protocol.Root {
			t.Fatal("not two roots")
		}
		for key := range w.channels {
			w.channels[key] = nil
		}
		w.pending = nil
		for _, line := range []string{"resume A B", "resume A C", "resume B A", "resume C A", "cut " + heard, "heal " + heard, "advance 10s"} {
			if err := w.do(line); err != nil {
				t.Fatal(err)
			}
		}
		w.failure = nil // there were two, as is the price
		play(t, w, "advance 1s", "request C", "request A", "serve 10s", "advance 2s", "rest", "check")
	}
}

// TestFormerVoterIsQuiet: a voter that lost its vote while it was cut off does not go on
// asking for votes once a root answers it.
func TestFormerVoterIsQuiet(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C D E voters=3", "advance 8s", "cut C", "advance 8s", "heal C", "advance 4s")
	c := w.nodes["C"].machine
	if slices.Contains(w.nodes["A"].machine.ballot.of.voters, c.self) || c.role != protocol.Member {
		t.Fatal("C has its vote still, or no root")
	}
	asked := c.Status().Counters.Sent[protocol.KindCanvass]
	play(t, w, "advance 20s")
	if n := c.Status().Counters.Sent[protocol.KindCanvass] - asked; n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestRootOutlivesTheOtherOfTwoVoters: on the way from three voters to one there are
// two for a moment. If the other one dies then, the root goes on.
func TestRootOutlivesTheOtherOfTwoVoters(t *testing.T) {
	w := newWorld()
	for _, line := range []string{"grow A B C voters=3", "advance 8s", "crash C"} {
		if err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	root := w.nodes["A"].machine
	for len(root.ballot.of.voters) != 2 || !root.reign().confirmed {
		if w.now > 60*protocol.Second {
			t.Fatal("there were never two voters")
		}
		w.advance(10*protocol.Millisecond, true)
	}
	epoch := root.epoch
	w.nodes["B"].crashed = true
	w.advance(10*protocol.Second, true)
	if root.role != protocol.Root || root.epoch != epoch || len(root.ballot.of.voters) != 1 {
		t.Errorf("the root is %v in epoch %v, was in %v, voters %v", root.role, root.epoch, epoch, root.ballot.of.voters)
	}
	w.sound(t)
}

// TestSuccessorKeepsItsVoters: who becomes the root by a hand-over or by an election
// goes on with the voters that live, for they have been members for long.
func TestSuccessorKeepsItsVoters(t *testing.T) {
	for name, change := range map[string]string{"hand-over": "priority B -1", "election": "crash A"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			play(t, w, "grow A B C D voters=3", "advance 8s", change)
			next := w.nodes["B"].machine
			for next.role != protocol.Root {
				if w.now > 60*protocol.Second {
					t.Fatal("B is not the root")
				}
				w.advance(50*protocol.Millisecond, true)
			}
			for range 60 {
				w.advance(100*protocol.Millisecond, true)
				if n := len(next.ballot.of.voters); n < 2 {
					t.Fatalf("there is %d voter left", n)
				}
			}
			if n := len(next.ballot.of.voters); n != 3 {
				t.Errorf("%d voters, want 3", n)
			}
			w.sound(t)
		})
	}
}

// TestSomebodyElseKnowsBetter: C is cut off when only A and C have votes, and objects to
// a founding ever after, for A is dead. B knows that A decided alone in the end, but has
// no vote. A, which is started again and knows nothing, hears of both.
func TestSomebodyElseKnowsBetter(t *testing.T) {
	w := newWorld()
	play(t, w, "grow A B C voters=3 found=A", "advance 8s", "crash B")
	b, c := func() *Machine { return w.nodes["B"].machine }, w.nodes["C"].machine
	await := func(what string, is func() bool) {
		t.Helper()
		for end := w.now + 60*protocol.Second; !is(); w.advance(10*protocol.Millisecond, true) {
			if w.now > end {
				t.Fatalf("never: %s", what)
			}
		}
	}
	await("A and C alone vote", func() bool { return len(c.ballot.of.voters) == 2 })
	play(t, w, "cut C", "restart B")
	await("B knows that A decides alone", func() bool { return b().ballot != nil && len(b().ballot.of.voters) == 1 })
	play(t, w, "crash A", "advance 5s", "heal C", "restart A", "advance 30s")
	if a := w.nodes["A"].machine; a.role != protocol.Root {
		t.Errorf("A is %v, with C objecting in the name of %v", a.role, c.ballot.of)
	}
	w.sound(t)
}
