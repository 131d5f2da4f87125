package reliable

import (
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// orphanOf is what the broker has retained of theWriter for "k".
func orphanOf(t *testing.T, r *Receiver, seq uint64) *Orphan {
	t.Helper()
	o := r.Orphan("-", "k", "w/w1", wire.Append(nil, &wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: seq, Schema: 7, Nanos: seq}))
	if o == nil {
		t.Fatal("it is no retained sample")
	}
	return o
}

// taken are the numbers of the samples that wait, without changes of state.
func taken(r *Receiver) (seqs []uint64) {
	for h := r.TakeNext(); h != nil; h = r.TakeNext() {
		if h.Valid() {
			seqs = append(seqs, h.Seq)
		}
	}
	return seqs
}

// A writer that is closed and has never spoken to the reader has not met it: what it wrote
// last may be on its way while its end is heard, and the broker has it by then.
func TestWhatAWriterRetainedThatNeverSpokeIsAskedForAgain(t *testing.T) {
	for _, met := range []bool{false, true} {
		n := newLossyPair(Policies{Reliable: true, Transient: true, Historic: true})
		n.match()
		n.r.Settle(func(wire.GUID) bool { return true })
		want := 1
		if met {
			n.heal()
			want = 0
		}
		n.r.Unmatched(theWriter, false)
		if n.recalled != want {
			t.Errorf("met %v: asked %d times, want %d", met, n.recalled, want)
		}
	}
}

// A writer whose first word to the reader is that it has ended does not send its history any
// more: its last values are with the broker.
func TestWhatAWriterRetainedThatEndedAtOnceIsGiven(t *testing.T) {
	for _, known := range []bool{true, false} {
		n := newLossyPair(Policies{Reliable: true, Transient: true, Historic: true})
		n.match()
		n.r.Settle(func(wire.GUID) bool { return true })
		here := func(wire.GUID) bool { return true }
		if known {
			n.r.Adopt(orphanOf(t, n.r, 40), here)
		}
		n.r.Handle(theWriter, &wire.Repair{Op: wire.OpEnd, A: 1, B: 40})
		n.r.Unmatched(theWriter, false)
		if n.recalled != 1 {
			t.Errorf("known %v: asked %d times for what is retained", known, n.recalled)
		}
		n.r.Adopt(orphanOf(t, n.r, 40), func(wire.GUID) bool { return false })
		if got := taken(n.r); !slices.Equal(got, []uint64{40}) {
			t.Errorf("known %v: got %v", known, got)
		}
	}
}

// Nor does it if samples of it came before: those are given when they are all there, without
// waiting for what was written before them.
func TestAWriterThatEndedAtOnceIsNotWaitedFor(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, Transient: true, Historic: true, Depth: 10})
	n.match()
	n.r.Settle(func(wire.GUID) bool { return true })
	live := func(seq uint64) {
		n.r.Arrived("k", "w/w1", wire.Append(nil, &wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: seq, Schema: 7, Nanos: seq}))
	}
	live(38)
	n.r.Handle(theWriter, &wire.Repair{Op: wire.OpEnd, A: 1, B: 40})
	if got := taken(n.r); !slices.Equal(got, []uint64{38}) {
		t.Errorf("when it has ended: got %v", got)
	}
	n.r.Unmatched(theWriter, false)
	live(40)
	if live(39); n.recalled != 1 {
		t.Errorf("asked %d times for what is retained", n.recalled)
	}
	if got := taken(n.r); !slices.Equal(got, []uint64{39, 40}) {
		t.Errorf("when all is there: got %v", got)
	}
}

// Of a writer that was closed before the reader had all, and of which no more comes, the
// broker has the last values, too. What had come is not given again.
func TestWhatAWriterRetainedIsGivenWhenNoMoreComes(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, Transient: true, Historic: true, Depth: 10})
	n.match()
	n.r.Settle(func(wire.GUID) bool { return true })
	n.heal() // they have met
	for range 3 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.step(0, "deliver")
	n.step(0, "lose")
	n.step(0, "deliver") // early
	n.r.Handle(theWriter, &wire.Repair{Op: wire.OpEnd, A: 1, B: 4})
	n.r.Unmatched(theWriter, false)
	n.r.Tick(time.Now().Add(2 * drainFor))
	if n.recalled != 1 {
		t.Errorf("asked %d times for what is retained", n.recalled)
	}
	gone := func(wire.GUID) bool { return false }
	n.r.Adopt(orphanOf(t, n.r, 3), gone) // it was early
	n.r.Adopt(orphanOf(t, n.r, 4), gone)
	if got := taken(n.r); !slices.Equal(got, []uint64{1, 3, 4}) {
		t.Errorf("got %v", got)
	}
}
