package reliable

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

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
	err := b.s.TryWrite(key, &wire.Envelope{Schema: 7, Nanos: b.s.seq + 1, Body: []byte{1}, Options: wire.Options{Status: what}})
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

// announcedDead is one whose writer wrote these keys, of which the reader got nothing, before its
// death was announced.
func announcedDead(t *testing.T, keys ...string) *brokered {
	b := newBrokered(Policies{KeepAll: true})
	b.meet()
	b.heal()
	for _, key := range keys {
		b.write(t, key, wire.StatusData)
	}
	b.wire = nil
	b.die()
	return b
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
	b := announcedDead(t, "a", "b", "a", "b", "c")
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
	b := announcedDead(t, "a", "b", "a", "a")
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
		"its participant is started again":                                {given: again("w1"), lost: 2},
		"its participant is started again, with a writer of another name": {given: again("w2")},
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
	b := announcedDead(t, "a", "a", "a")
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
