package reliable

import (
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// A heartbeat, which has a connection of its own, overtakes samples. They are not sent
// again, and acknowledged as soon as they are there.
func TestAHeartbeatThatOvertakesSamplesAsksForNothing(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true})
	n.match()
	for len(n.wire) > 0 {
		n.step(0, "deliver")
	}
	for range 3 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.r.quiet = time.Hour
	n.step(0, "deliver") // the first sample; the two others are on the way
	writer := theWriter
	answer := func(last uint64) []wire.Repair {
		n.posted = nil
		n.r.heartbeat(writer, &wire.Repair{A: 1, B: last})
		return n.messages(wire.OpAck)
	}
	if acks := answer(3); len(acks) != 1 || acks[0].A != 1 || len(acks[0].Ranges) > 0 {
		t.Errorf("answered %+v", acks)
	}
	on := n.wire
	n.wire = nil
	on[0]()
	if acks := n.messages(wire.OpAck); len(acks) > 0 {
		t.Errorf("the second of three samples is acknowledged: %+v", acks)
	}
	on[1]()
	if acks := n.messages(wire.OpAck); len(acks) != 1 || acks[0].A != 3 {
		t.Errorf("the last is acknowledged by %+v", acks)
	}
	n.later(2 * time.Hour)
	if acks := answer(5); len(acks) != 1 || !slices.Equal(acks[0].Ranges, []wire.Range{{First: 4, Last: 5}}) {
		t.Errorf("two that are lost are asked for by %+v", acks)
	}
	e := wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 4, Schema: 7}
	n.r.arrived("k", "w/w1", wire.Append(nil, &e), false) // tells nothing of what is on the other connection
	if acks := answer(6); len(acks) != 1 || !slices.Equal(acks[0].Ranges, []wire.Range{{First: 5, Last: 6}}) {
		t.Errorf("the rest is asked for by %+v", acks)
	}
}

// later has time pass for the reader, in which nothing comes.
func (n *lossyPair) later(d time.Duration) {
	w := n.r.writers["w/w1"]
	w.heard, n.r.heard = w.heard.Add(-d), n.r.heard.Add(-d)
	if !w.silent.IsZero() {
		w.silent, w.silence = w.silent.Add(-d), w.silence+d
	}
}

// A writer knows what has not left it.
func TestWhatIsOnTheWayToTheBrokerIsNotSentAgain(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true})
	var placed, passed uint64
	n.s.out.Placed, n.s.out.Passed = func() uint64 { placed++; return placed }, func() uint64 { return passed }
	n.match()
	for range 4 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	for _, passed = range []uint64{0, 2, 4} {
		n.posted = nil
		n.s.acknowledged(theReader, &wire.Repair{Op: wire.OpAck, Ranges: []wire.Range{{First: 1, Last: 4}}})
		if again := n.messages(wire.OpSample); len(again) != int(passed) {
			t.Errorf("%d of 4 samples are with the broker, and %d are sent again", passed, len(again))
		}
		n.s.readers[theReader].burst.last = 0
	}
}

// A heartbeat that overtakes samples gives up none of those that it says are not held
// any more, as they are on their way; those that have not come for a while it does.
func TestAHeartbeatThatOvertakesSamplesGivesUpNone(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, Depth: 1}, Policies{Reliable: true, KeepAll: true})
	n.match()
	n.heal()
	write := func(count int) {
		t.Helper()
		for range count {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
	}
	arrived := func() (got []uint64) {
		for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
			got = append(got, h.Seq)
		}
		return got
	}
	n.r.quiet = time.Hour
	write(1)
	n.step(0, "deliver")
	write(3)
	writer := theWriter
	n.r.heartbeat(writer, &wire.Repair{A: 4, B: 4})
	n.heal()
	if got, lost := arrived(), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{1, 2, 3, 4}) || len(lost) > 0 {
		t.Errorf("got %v, told %v", got, lost)
	}
	write(3)
	n.wire = nil
	n.r.heartbeat(writer, &wire.Repair{A: 7, B: 7})
	n.later(2 * time.Hour)
	n.r.heartbeat(writer, &wire.Repair{A: 7, B: 7})
	n.heal()
	if got, lost := arrived(), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{7}) || !slices.Equal(lost, []SampleLost{{writer, 2}}) {
		t.Errorf("got %v, told %v", got, lost)
	}
}

// A process that was suspended finds words of many seconds at once, and samples as old beside
// them. None of those words, not even the writer's last, makes it give up a sample.
func TestWordsThatASuspensionHasDelayedGiveUpNone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1}, Policies{Reliable: true, KeepAll: true})
		n.match()
		n.heal()
		n.r.quiet = minQuiet
		for range 4 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: 1, B: 1})
		time.Sleep(4 * time.Second)
		samples := n.wire[:4]
		n.wire = nil
		for last := uint64(1); last <= 4; last++ {
			n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: last, B: last})
		}
		for len(n.wire) > 0 { // it is told what the writer has not any more
			n.step(0, "deliver")
		}
		n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpEnd, A: 4, B: 4})
		n.r.Unmatched(theWriter, false)
		for _, deliver := range samples {
			deliver()
		}
		n.expectTaken(t, 0, 1, 2, 3, 4)
	})
}

// expectTaken takes what has come and compares it with the samples wanted, and with how many
// the reader was told to be lost.
func (n *lossyPair) expectTaken(t *testing.T, lost uint64, want ...uint64) {
	t.Helper()
	var got []uint64
	for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
		if h.Valid() {
			got = append(got, h.Seq)
		}
	}
	for _, l := range told[SampleLost](n.r.events) {
		lost -= l.Count
	}
	if !slices.Equal(got, want) || lost != 0 {
		t.Errorf("got %v, want %v; %d lost samples were not told of", got, want, int64(lost))
	}
}

// What a later sample has passed is not on its way: that it is not held any more is believed
// while samples come, and so it is of what was there before the reader.
func TestWhatIsLostBeforeALaterSampleIsGivenUpAtOnce(t *testing.T) {
	for _, historic := range []bool{false, true} {
		n := newLossyPair(Policies{Reliable: true, Depth: 1, Historic: historic}, Policies{Reliable: true, KeepAll: true, Historic: historic})
		n.r.quiet = time.Hour
		write := func() {
			t.Helper()
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		write()
		write()
		n.wire = nil
		n.match()
		write() // comes before all that is said
		for sample := len(n.wire) - 1; len(n.wire) > 0; sample = 0 {
			n.step(sample, "deliver")
		}
		n.expectTaken(t, 0, 3)
		write()
		write()
		n.step(0, "lose")
		n.heal()
		n.expectTaken(t, 1, 5)
	}
}

// A broker that does not acknowledge, or is held up by somebody else's reader, does
// not keep a reader waiting for what it lacks for ever.
func TestWhatDoesNotArriveIsSentAgainThoughItIsOnTheWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true})
		placed := uint64(0)
		n.s.out.Placed = func() uint64 { placed++; return placed }
		n.match()
		n.heal()
		for range 3 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(acked uint64) int {
			n.posted = nil
			n.s.acknowledged(theReader, &wire.Repair{Op: wire.OpAck, A: acked, Ranges: []wire.Range{{First: acked + 1, Last: 3}}})
			return len(n.messages(wire.OpSample))
		}
		for _, step := range []struct {
			after time.Duration
			acked uint64
			want  int
		}{
			{0, 0, 0},
			{maxBeat - 1, 0, 0},
			{0, 1, 0}, // it moves
			{maxBeat - 1, 1, 0},
			{1, 1, 2},
		} {
			time.Sleep(step.after)
			if again := ask(step.acked); again != step.want {
				t.Errorf("%+v: %d are sent again", step, again)
			}
		}
	})
}

// What is lost before the writer's first word has arrived is told too.
func TestLossesBeforeTheFirstHeartbeatAreTold(t *testing.T) {
	for _, historic := range []bool{false, true} {
		n := newLossyPair(Policies{Reliable: true, Historic: historic, Depth: 1})
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
		n.match()
		for range 3 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.wire = nil
		n.heal()
		var want []SampleLost
		if !historic { // to a late joiner all of it is history
			want = []SampleLost{{theWriter, 2}}
		}
		if lost := told[SampleLost](n.r.events); !slices.Equal(lost, want) {
			t.Errorf("historic %v: told %v, want %v", historic, lost, want)
		}
	}
}
