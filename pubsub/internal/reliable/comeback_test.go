package reliable

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// brokered is a transient writer and reader, and what the broker retains.
type brokered struct {
	*lossyPair
	retained map[string][]byte // by key
	deaf     bool              // the reader does not hear what is cleared
	alive    bool              // the writer, for all that the reader knows
	births   uint64
	valid    []uint64 // samples that were written, without changes of state
	got      []uint64
	keys     map[uint64]string // of valid
	lost     uint64
}

func newBrokered(q Policies, reader ...Policies) *brokered {
	q.Reliable, q.Transient, q.Historic = true, true, true
	for i := range reader {
		reader[i].Reliable, reader[i].Transient, reader[i].Historic = true, true, true
	}
	b := &brokered{lossyPair: newLossyPair(q, reader...), retained: map[string][]byte{}, keys: map[uint64]string{}}
	out := &b.s.out
	out.Retain = func(partition, key string, payload []byte) error {
		if len(payload) > 0 {
			b.retained[key] = bytes.Clone(payload)
			return out.Publish(partition, key, payload, Alone)
		}
		if delete(b.retained, key); !b.deaf {
			b.r.Cleared(key, "w/w1")
		}
		return nil
	}
	return b
}

// meet begins with a writer that the reader knows.
func (b *brokered) meet() {
	b.back()
	b.s.Matched(Peer{GUID: theReader, Reliable: true, Historic: true})
	b.r.Settle(b.standing)
}

func (b *brokered) standing(wire.GUID) bool { return b.alive }

// die announces the writer's death. It does not know of that, and goes on.
func (b *brokered) die() {
	if b.alive {
		b.alive = false
		b.r.Unmatched(theWriter, true)
	}
}

// back announces a birth of the same incarnation.
func (b *brokered) back() {
	if !b.alive {
		b.births++
		b.alive = true
		b.r.Matched(Peer{GUID: theWriter, Reliable: true, Historic: true, Epoch: b.births})
		b.s.Stale()
	}
}

func (b *brokered) write(t interface{ Fatal(...any) }, key string, what wire.Status) {
	_, err := b.s.TryWrite(key, &wire.Envelope{Schema: 7, Nanos: b.s.seq + 1, Body: []byte{1}, Options: wire.Options{Status: what}})
	switch {
	case err == nil && what == wire.StatusData:
		b.valid = append(b.valid, b.s.seq)
		b.keys[b.s.seq] = key
	case err != nil && !errors.Is(err, ErrFull):
		t.Fatal(err)
	}
}

// resubscribe has the broker deliver what it retains, in any order of keys.
func (b *brokered) resubscribe(keys ...string) {
	for _, key := range keys {
		if payload := b.retained[key]; payload != nil {
			b.r.Adopt(b.r.Orphan("-", key, "w/w1", payload), b.standing)
		}
	}
}

// take takes what waits.
func (b *brokered) take() {
	b.got = append(b.got, taken(b.r)...)
	for _, l := range told[SampleLost](b.r.events) {
		b.lost += l.Count
	}
}

// rest loses nothing any more, until no more comes.
func (b *brokered) rest(t interface{ Fatal(...any) }) {
	b.back()
	for have := -1; len(b.got) > have; {
		have = len(b.got)
		if !b.heal() {
			t.Fatal("the two never come to rest")
		}
		b.take()
	}
}

// pass has so much time pass for the reader.
func (b *brokered) pass(d time.Duration) {
	b.r.Tick(time.Now().Add(d))
}

// unseen counts the samples after one that did not come.
func (b *brokered) unseen(after uint64) (n uint64) {
	for _, seq := range b.valid {
		if seq > after && !slices.Contains(b.got, seq) {
			n++
		}
	}
	return n
}

// A writer that was announced dead for a moment has not lost what the reader lacks: its last
// values, which the broker had retained, do not overtake the rest.
func TestAWriterThatComesBackHasNotSkippedToItsLastValues(t *testing.T) {
	for _, when := range []string{"before its death", "after its death", "both"} {
		b := newBrokered(Policies{KeepAll: true})
		b.meet()
		b.heal()
		b.write(t, "a", wire.StatusData)
		b.heal()
		for _, key := range []string{"a", "b", "a", "b", "c"} {
			b.write(t, key, wire.StatusData)
		}
		b.wire = nil // the reader was away
		if when != "after its death" {
			b.resubscribe("c", "b", "a")
		}
		b.die()
		if when != "before its death" {
			b.resubscribe("c", "b", "a")
		}
		if b.take(); !slices.Equal(b.got, []uint64{1}) {
			t.Errorf("%s: got %v while the writer may come back", when, b.got)
		}
		b.pass(comeback / 2)
		b.rest(t)
		b.write(t, "a", wire.StatusData)
		b.rest(t)
		if !slices.Equal(b.got, []uint64{1, 2, 3, 4, 5, 6, 7}) || b.lost != 0 {
			t.Errorf("%s: got %v, told that %d are lost", when, b.got, b.lost)
		}
		if there, _ := b.r.History(); !there {
			t.Errorf("%s: more is waited for", when)
		}
	}
}

// Of one that does not come back the reader gets the last values after a moment, in the order
// in which they were written, and hears of the rest when it is written off.
func TestAWriterThatDoesNotComeBackLeavesItsLastValues(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	for _, key := range []string{"a", "b", "a", "b", "c"} {
		b.write(t, key, wire.StatusData)
	}
	b.wire = nil
	b.die()
	b.resubscribe("c", "b", "a")
	if there, _ := b.r.History(); there {
		t.Error("all is there while values wait")
	}
	b.pass(comeback)
	if b.take(); !slices.Equal(b.got, []uint64{3, 4, 5}) || b.lost != 0 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
	if there, _ := b.r.History(); !there {
		t.Error("more is waited for")
	}
	b.pass(returnFor + time.Second)
	if b.take(); len(b.got) != 3 || b.lost != 2 {
		t.Errorf("when it is written off: got %v, told that %d are lost", b.got, b.lost)
	}
	b.resubscribe("a", "b", "c")
	b.write(t, "a", wire.StatusData)
	b.rest(t)
	if !slices.Equal(b.got, []uint64{3, 4, 5, 6}) || b.lost != 2 {
		t.Errorf("when it is back: got %v, told that %d are lost", b.got, b.lost)
	}
}

// If it comes back between, what its history holds of before is told.
func TestAWriterThatComesBackTooLateGoesOnFromItsLastValues(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	for _, key := range []string{"a", "b", "a", "a"} {
		b.write(t, key, wire.StatusData)
	}
	b.wire = nil
	b.die()
	b.resubscribe("b", "a")
	b.pass(comeback)
	b.rest(t)
	b.write(t, "a", wire.StatusData)
	b.rest(t)
	if !slices.Equal(b.got, []uint64{2, 4, 5}) || b.lost != 2 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}

// A value that need not wait does not.
func TestALastValueThatWaitsForNothing(t *testing.T) {
	again := func(endpoint string) func(*brokered) {
		return func(b *brokered) {
			b.resubscribe("a")
			b.r.Matched(Peer{GUID: wire.GUID{Participant: "w", Incarnation: 2, Endpoint: endpoint}, Reliable: true, Historic: true})
		}
	}
	for name, c := range map[string]struct {
		given func(*brokered)
		lost  uint64 // told by then
	}{
		"its participant is started again":                           {given: again("w1"), lost: 2},
		"its participant is started again, with a writer named anew": {given: again("w2")},
		"a value of the next life comes": {given: func(b *brokered) {
			b.resubscribe("a")
			b.r.Adopt(b.r.Orphan("-", "a", "w/w1", wire.Append(nil, &wire.Envelope{Kind: wire.KindSample, Epoch: 2, Seq: 1, Schema: 7, Nanos: 9})), func(wire.GUID) bool { return true })
		}, lost: 2},
		"it expires soon": {given: func(b *brokered) {
			now := uint64(time.Now().UnixNano())
			b.r.Adopt(b.r.Orphan("-", "a", "w/w1", wire.Append(nil, &wire.Envelope{
				Kind: wire.KindSample, Epoch: 1, Seq: 3, Schema: 7, Nanos: now, Options: wire.Options{Lifespan: uint64(comeback - time.Second)},
			})), b.standing)
		}},
		"it is given up before": {given: func(b *brokered) {
			b.resubscribe("a")
			b.pass(time.Second)
		}, lost: 2},
	} {
		b := newBrokered(Policies{KeepAll: true})
		b.meet()
		b.heal()
		for range 3 {
			b.write(t, "a", wire.StatusData)
		}
		b.wire = nil
		b.r.patience = time.Second
		b.die()
		c.given(b)
		if b.take(); !slices.Equal(b.got, []uint64{3}) || b.lost != c.lost {
			t.Errorf("%s: got %v, told that %d are lost", name, b.got, b.lost)
		}
		b.pass(returnFor)
		if b.take(); len(b.got) != 1 || b.lost != 2 {
			t.Errorf("%s, and the writer is written off: got %v, told that %d are lost", name, b.got, b.lost)
		}
	}
}

// While the reader is offline it cannot hear that a writer is back.
func TestALastValueWaitsLongerWhileTheReaderIsOffline(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	for range 3 {
		b.write(t, "a", wire.StatusData)
	}
	b.wire = nil
	b.die()
	b.resubscribe("a")
	b.r.Connected(false)
	b.pass(comeback + time.Second)
	b.r.Connected(true)
	b.pass(comeback / 2)
	if b.take(); len(b.got) > 0 {
		t.Errorf("got %v", b.got)
	}
	b.pass(comeback + time.Second)
	if b.take(); !slices.Equal(b.got, []uint64{3}) {
		t.Errorf("after the wait: got %v", b.got)
	}
}

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
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	b.write(t, "a", wire.StatusData)
	b.write(t, "a", wire.StatusData)
	b.wire = nil
	b.die()
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
		b := newBrokered(Policies{KeepAll: true})
		b.meet()
		b.heal()
		b.write(t, "a", wire.StatusData)
		b.write(t, "a", wire.StatusData)
		b.wire = nil
		b.die()
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
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	b.write(t, "a", wire.StatusData)
	b.write(t, "a", wire.StatusData)
	b.wire = nil
	b.die()
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
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	b.write(t, "a", wire.StatusData)
	b.wire = nil
	b.die()
	b.resubscribe("a")
	b.take()
	b.write(t, "a", wire.StatusData)
	b.rest(t)
	if !slices.Equal(b.got, []uint64{1, 2}) || b.lost != 0 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}

// What a reader that comes later has been given of a writer that seemed to be gone stands in
// the way of older samples: it hears of those, and gets nothing twice.
func TestAReaderThatCameDuringAnOutageHearsWhatItDoesNotGet(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	for range 3 {
		b.write(t, "a", wire.StatusData)
	}
	b.wire = nil
	b.resubscribe("a")
	b.r.Settle(b.standing)
	if b.take(); !slices.Equal(b.got, []uint64{3}) {
		t.Errorf("got %v of a writer that is gone", b.got)
	}
	b.back()
	b.s.Matched(Peer{GUID: theReader, Reliable: true, Historic: true})
	b.write(t, "a", wire.StatusData)
	b.resubscribe("a") // a newer one, of a writer that is back
	b.rest(t)
	if !slices.Equal(b.got, []uint64{3, 4}) || b.lost != 2 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}

// Nor does it get what was disposed of while its writer repeats its history.
func TestWhatWasGivenAndClearedIsNotRepeated(t *testing.T) {
	for _, when := range []string{"before it is back", "after it is back"} {
		b := newBrokered(Policies{KeepAll: true})
		for range 3 {
			b.write(t, "a", wire.StatusData)
		}
		b.wire = nil
		b.resubscribe("a")
		b.r.Settle(b.standing)
		if when == "before it is back" {
			b.write(t, "a", wire.StatusDispose)
			b.wire = nil
		}
		b.meet()
		if when == "after it is back" {
			b.write(t, "a", wire.StatusDispose)
		}
		b.rest(t)
		if !slices.Equal(b.got, []uint64{3}) || b.lost != 2 {
			t.Errorf("disposed of %s: got %v, told that %d are lost", when, b.got, b.lost)
		}
		if n := len(b.r.orphans.byID); n > 0 {
			t.Errorf("disposed of %s: %d values that the broker has forgotten are remembered", when, n)
		}
	}
}

// A writer that was closed sends what is on its way, too, before the broker's value counts.
func TestALastValueDoesNotOvertakeWhatAClosedWriterSent(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	for range 3 {
		b.write(t, "a", wire.StatusData)
	}
	b.alive = false
	b.r.Handle(theWriter, &wire.Repair{Op: wire.OpEnd, A: 1, B: 3})
	b.r.Unmatched(theWriter, false)
	b.resubscribe("a")
	for len(b.wire) > 0 {
		b.step(0, "deliver")
	}
	if b.take(); !slices.Equal(b.got, []uint64{1, 2, 3}) {
		t.Errorf("got %v", b.got)
	}
}

// A reader of one instance has what follows there at once, and misses nothing.
func TestALastValueReachesAReaderOfOneInstance(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.r.narrow, b.alive = true, true
	b.r.Matched(Peer{GUID: theWriter, Reliable: true, Historic: true})
	b.s.Matched(Peer{GUID: theReader, Reliable: true, Historic: true, Instance: "a"})
	b.r.Settle(b.standing)
	b.heal()
	b.write(t, "a", wire.StatusData)
	b.heal()
	b.write(t, "b", wire.StatusData)
	b.write(t, "a", wire.StatusData)
	b.wire = nil
	b.die()
	b.resubscribe("a")
	if b.take(); !slices.Equal(b.got, []uint64{1, 3}) {
		t.Errorf("got %v", b.got)
	}
	b.back()
	b.write(t, "a", wire.StatusData)
	b.rest(t)
	if !slices.Equal(b.got, []uint64{1, 3, 4}) || b.lost != 0 {
		t.Errorf("when it is back: got %v, told that %d are lost", b.got, b.lost)
	}
}

// It hears of what it misses, whether the writer is back or written off.
func TestALastValueTellsAReaderOfOneInstanceWhatItMisses(t *testing.T) {
	for _, back := range []bool{false, true} {
		b := newBrokered(Policies{KeepAll: true})
		b.r.narrow, b.alive = true, true
		b.r.Matched(Peer{GUID: theWriter, Reliable: true, Historic: true})
		b.s.Matched(Peer{GUID: theReader, Reliable: true, Historic: true, Instance: "a"})
		b.r.Settle(b.standing)
		b.heal()
		for _, key := range []string{"a", "b", "a"} {
			b.write(t, key, wire.StatusData)
		}
		b.wire = nil
		b.die()
		b.resubscribe("a")
		b.pass(comeback)
		if b.take(); !slices.Equal(b.got, []uint64{3}) {
			t.Errorf("got %v", b.got)
		}
		if back {
			b.rest(t)
		} else {
			b.pass(returnFor + time.Second)
		}
		if b.take(); len(b.got) != 1 || b.lost != 1 {
			t.Errorf("back %v: got %v, told that %d are lost", back, b.got, b.lost)
		}
	}
}

// One that comes later has missed nothing either.
func TestALastValueIsNoLossForAReaderOfOneInstance(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true})
	b.r.narrow = true
	b.s.Matched(Peer{GUID: theReader, Reliable: true, Historic: true, Instance: "a"})
	for range 3 {
		b.write(t, "a", wire.StatusData)
	}
	b.resubscribe("a")
	b.r.Settle(b.standing)
	if b.take(); !slices.Equal(b.got, []uint64{3}) || b.lost != 0 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}

// What there was no room for while its writer seemed to be gone still comes of the living one.
func TestALastValueThatWasRefusedStillComes(t *testing.T) {
	b := newBrokered(Policies{KeepAll: true}, Policies{KeepAll: true, MaxInstances: 1})
	b.write(t, "a", wire.StatusData)
	b.write(t, "b", wire.StatusData)
	b.wire = nil
	b.resubscribe("a", "b")
	b.r.Settle(b.standing)
	b.take() // which makes room
	b.meet()
	b.rest(t)
	if !slices.Equal(b.got, []uint64{1, 2}) || b.lost != 0 {
		t.Errorf("got %v, told that %d are lost", b.got, b.lost)
	}
}

// Whenever deaths are announced of a writer that lives, and whatever the broker repeats, a
// reader that knows the writer gets all that it holds, once and in order, if it is back soon.
// One that does not, or that has waited in vain, hears what it does not get.
func TestALivingWriterThatIsAnnouncedDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{KeepAll: rapid.Bool().Draw(t, "keep all"), Depth: rapid.IntRange(1, 3).Draw(t, "depth")}
		b := newBrokered(q, Policies{KeepAll: true, MaxSamples: rapid.IntRange(4, 200).Draw(t, "limit")})
		known := rapid.Bool().Draw(t, "known")
		if !known {
			for range rapid.IntRange(0, 10).Draw(t, "written before") {
				b.write(t, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), wire.StatusData)
			}
			b.wire = nil
			b.resubscribe("a", "b", "c")
			b.r.Settle(b.standing)
		}
		b.meet()
		if known {
			b.heal()
		}
		anyKey := rapid.SampledFrom([]string{"a", "b", "c"})
		impatient := rapid.Bool().Draw(t, "impatient")
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
			case op < 6:
				b.write(t, anyKey.Draw(t, "key"), wire.StatusData)
			case op < 7:
				b.deaf = rapid.Bool().Draw(t, "deaf")
				b.write(t, anyKey.Draw(t, "key"), wire.StatusDispose)
			case op < 8 && rapid.Bool().Draw(t, "one"):
				if h := b.r.TakeNext(); h != nil && h.Valid() {
					b.got = append(b.got, h.Seq)
				}
			case op < 8:
				b.take()
			case op < 9:
				b.tick()
			case op < 11:
				b.die()
			case op < 12:
				b.back()
			case op < 14:
				b.resubscribe(rapid.Permutation([]string{"a", "b", "c"}).Draw(t, "order")...)
			case op < 15:
				b.pass(comeback / 2)
				if impatient {
					b.pass(rapid.SampledFrom([]time.Duration{comeback, returnFor + time.Second}).Draw(t, "pause"))
				}
			case len(b.wire) > 0:
				i := rapid.IntRange(0, len(b.wire)-1).Draw(t, "message")
				b.step(i, rapid.SampledFrom([]string{"deliver", "lose", "repeat", "deliver"}).Draw(t, "fate"))
			}
		}
		b.rest(t)
		b.expectNoSilentLoss(t, known && !impatient, impatient)
		if b.s.Lagging(b.s.seq) != nil {
			t.Fatal("everything is told but not acknowledged")
		}
		if w := b.r.writers["w/w1"]; len(w.early) > 0 || w.earlyBytes != 0 {
			t.Fatalf("%d samples, and %d bytes, are still held back", len(w.early), w.earlyBytes)
		}
	})
}

func (b *brokered) expectNoSilentLoss(t *rapid.T, patient, writtenOff bool) {
	last := map[string]uint64{}
	for i, seq := range b.got {
		key := b.keys[seq]
		if seq <= last[key] || patient && i > 0 && seq <= b.got[i-1] {
			t.Fatalf("sample %d comes late or twice: %v", seq, b.got)
		}
		last[key] = seq
	}
	after := uint64(0)
	if !b.s.qos.KeepAll || writtenOff { // to a late joiner holes in the history are not told
		after = b.r.writers["w/w1"].historic
	}
	if n := b.unseen(after); n > b.lost || patient && b.s.qos.KeepAll && n+b.lost > 0 {
		t.Fatalf("%d samples of %v did not come, and %d are told lost: %v", n, b.valid, b.lost, b.got)
	}
}
