package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// A writer and a reader that are full, because nobody takes anything, go on when
// what they hold expires.
func TestExpiryMakesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const lifespan = 5 * time.Second
		n := newLossyPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 4, Lifespan: lifespan})
		n.match()
		deliver := func() {
			for i := 0; len(n.wire) > 0 && i < 1000; i++ {
				n.step(0, "deliver")
			}
		}
		write := func() (*Waiting, error) {
			e := wire.Envelope{Schema: 7, Nanos: uint64(time.Now().UnixNano())}
			e.Options.Lifespan = uint64(lifespan)
			return n.s.Write("-", &e)
		}
		deliver()
		var waits *Waiting
		written := 0
		for err := error(nil); err == nil; written++ {
			deliver()
			waits, err = write()
		}
		if written != 9 { // the ninth did not fit
			t.Fatalf("wrote %d samples where there is room for 8", written-1)
		}
		time.Sleep(lifespan)
		n.wire = nil // nothing but time wakes them
		if next := n.r.Tick(time.Now()); !next.IsZero() || len(waiting(n.r)) != 0 || n.r.stalled {
			t.Errorf("reader: %d samples, stalled %v, next tick %v", len(waiting(n.r)), n.r.stalled, next)
		}
		n.s.Tick(time.Now())
		select {
		case <-waits.Done():
		default:
			t.Error("a write that waited has not got room")
		}
		deliver()
		if _, err := write(); err != nil {
			t.Errorf("the writer: %v", err)
		}
		deliver()
		if h := n.r.TakeNext(); h == nil || h.Seq != 10 { // the ninth has waited for too long
			t.Errorf("the reader has %+v", h)
		}
	})
}

// A sample that is over when it arrives is acknowledged, and means nothing for
// its instance.
func TestWhatArrivesTooLateIsNoSignOfLife(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, Exclusive: true, Deadline: time.Hour})
	n.match()
	n.heal()
	e := wire.Envelope{Schema: 7, Nanos: uint64(time.Now().Add(-2 * time.Second).UnixNano())}
	e.Options.Lifespan = uint64(time.Second)
	if err := n.s.TryWrite("-", &e); err != nil {
		t.Fatal(err)
	}
	n.heal()
	if n.r.cache.Knows("-") || !n.r.cache.Due().IsZero() {
		t.Error("it made an instance")
	}
	if wait := n.s.Lagging(1); wait != nil {
		t.Error("it was not acknowledged")
	}
}
