package reliable

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// leftBy has the broker deliver a value which a writer that the reader knows has left.
func leftBy(r *Receiver, participant string, seq, nanos uint64) {
	r.Adopt(r.Orphan("-", "a", participant+"/w1", wire.Append(nil, &wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: seq, Schema: 7, Nanos: nanos})), func(wire.GUID) bool { return false })
}

// Values of several writers that die together are given in the order of their times. One that
// is late when its wait is over is told as lost, as is what was before it.
func TestLastValuesThatWaitedTogether(t *testing.T) {
	for range 20 {
		b := newBrokered(Policies{KeepAll: true})
		b.r.Settle(b.standing)
		for i, p := range []string{"u", "v", "x"} {
			g := wire.GUID{Participant: p, Incarnation: 1, Endpoint: "w1"}
			b.r.Matched(Peer{GUID: g, Reliable: true, Historic: true})
			b.r.Handle(g, &wire.Repair{Op: wire.OpHeartbeat, A: 1, B: 0})
			if p != "x" {
				b.r.Unmatched(g, true)
				leftBy(b.r, p, uint64(10*(i+1)), uint64(100-i))
			}
		}
		o := b.r.orphans.byID[orphanID("a", "u/w1")]
		o.until, b.r.due = o.until.Add(-100*time.Millisecond), time.Time{}
		b.pass(comeback - 100*time.Millisecond)
		if b.take(); !slices.Equal(b.got, []uint64{20, 10}) || b.lost != 0 {
			t.Fatalf("got %v, told that %d are lost", b.got, b.lost)
		}
		leftBy(b.r, "v", 22, 98)
		b.r.Arrived("a", "x/w1", wire.Append(nil, &wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 1, Schema: 7, Nanos: 1000}))
		b.pass(2 * comeback)
		b.pass(returnFor + time.Second)
		if b.take(); !slices.Equal(b.got, []uint64{20, 10, 1}) || b.lost != 9+19+2 {
			t.Fatalf("when another writes: got %v, told that %d are lost", b.got, b.lost)
		}
	}
}

// What the filter does not judge, or there is no room for, is not kept, and told once.
func TestALastValueThatIsRefusedIsToldOnce(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.r.out.Filter = func([]byte) (bool, error) { return false, ErrNoAnswer }
	b.r.Settle(b.standing)
	leftBy(b.r, "u", 3, 5)
	b.r.ReachOut(nil)
	b.r.Settle(b.standing)
	if n := len(told[SampleRejected](b.r.events)); n != 1 {
		t.Errorf("told %d times", n)
	}
	for _, o := range b.r.orphans.byID {
		if !o.done || o.Body != nil {
			t.Errorf("%d bytes are kept", len(o.Body))
		}
	}
}

// A value that was given of a writer that had not told where it starts is not lost.
func TestALastValueThatWasGivenIsNotLost(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.r.Settle(b.standing)
	b.back()
	for _, key := range []string{"a", "a", "a", "a", "b", "a"} {
		b.write(t, key, wire.StatusData)
	}
	b.wire[4]() // after the reader's hello
	b.wire[6]()
	b.die()
	b.resubscribe("b")
	if b.take(); !slices.Equal(b.got, []uint64{5}) {
		t.Errorf("got %v at once of a writer that had not met the reader", b.got)
	}
	b.pass(returnFor + time.Second)
	if b.take(); !slices.Equal(b.got, []uint64{5, 4, 6}) || b.lost != 0 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}

// One that is disposed of while it waits is not given, and told as lost.
func TestALastValueThatIsClearedWhileItWaits(t *testing.T) {
	b := announcedDead(t, "a", "a")
	b.resubscribe("a")
	b.write(t, "a", wire.StatusDispose)
	b.wire = nil
	b.pass(comeback)
	b.pass(returnFor + time.Second)
	if b.take(); len(b.got) > 0 || b.lost != 2 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
	if there, _ := b.r.History(); !there {
		t.Error("more is waited for")
	}
}

// A newer value that comes meanwhile waits in the place of the older one, and is given once.
func TestANewerLastValueWaitsNoLonger(t *testing.T) {
	for _, cleared := range []bool{false, true} {
		b := announcedDead(t, "a", "a")
		b.resubscribe("a")
		pause := comeback
		if cleared {
			b.write(t, "a", wire.StatusDispose)
		} else {
			o := b.r.orphans.byID[orphanID("a", "w/w1")]
			o.until, b.r.due = o.until.Add(-time.Second), time.Time{}
			pause -= time.Second
		}
		b.write(t, "a", wire.StatusData)
		b.wire = nil
		b.resubscribe("a")
		b.pass(pause)
		if b.take(); !slices.Equal(b.got, b.valid[2:]) {
			t.Errorf("cleared %v: got %v", cleared, b.got)
		}
	}
}

// That of a writer which is back, if only to say that it does not match any more, is not given.
func TestALastValueOfAWriterThatPartsIsNotGiven(t *testing.T) {
	b := announcedDead(t, "a", "a")
	b.resubscribe("a")
	b.r.Parted(theWriter, true)
	b.pass(2 * comeback)
	if b.take(); len(b.got) > 0 {
		t.Errorf("got %v", b.got)
	}
}

// A reader does not remember all that was ever disposed of.
func TestWhatIsClearedIsForgottenInTheEnd(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.r.Settle(b.standing)
	for i := range maxCleared + 10 {
		participant := "u" + strconv.Itoa(i)
		leftBy(b.r, participant, 3, uint64(i+1))
		b.r.Cleared("a", participant+"/w1")
	}
	if n := len(b.r.orphans.byID); n != maxCleared || len(b.r.orphans.cleared) != n {
		t.Errorf("%d values are remembered, as %d", n, len(b.r.orphans.cleared))
	}
}

// What there was no room for and then comes again is not held back any more.
func TestWhatComesAgainIsNotHeldBack(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true}, Policies{Reliable: true, KeepAll: true, MaxSamples: 4})
	n.match()
	n.heal()
	for _, seq := range []uint64{1, 2, 3, 4, 5, 0, 5} {
		if seq == 0 {
			n.r.TakeNext()
			continue
		}
		n.r.Arrived("a", "w/w1", wire.Append(nil, &wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: seq, Schema: 7, Nanos: seq, Body: []byte{1}}))
	}
	if w := n.r.writers["w/w1"]; w.next != 6 || len(w.early) > 0 || w.earlyBytes != 0 {
		t.Errorf("next is %d, and %d samples, %d bytes, are held back", w.next, len(w.early), w.earlyBytes)
	}
}

// What follows what the reader has is given at once.
func TestALastValueThatFollowsIsGivenAtOnce(t *testing.T) {
	b := announcedDead(t, "a")
	b.resubscribe("a")
	b.take()
	b.write(t, "a", wire.StatusData)
	b.rest(t)
	if !slices.Equal(b.got, []uint64{1, 2}) || b.lost != 0 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}
