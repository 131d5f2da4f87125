package reliable

import (
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/wire"
)

// withDeadWriter is a reader with room for some samples (0: for all) of a writer that has died after some of its samples got lost.
func withDeadWriter(t *testing.T, room, written int, arrive ...int) *lossyPair {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true}, Policies{Reliable: true, KeepAll: true, MaxSamples: room})
	n.match()
	n.heal()
	for range written {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range arrive {
		n.wire[i-1]()
	}
	n.r.Unmatched(theWriter, true)
	return n
}

func sequences(n *lossyPair) (out []uint64) {
	for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
		if h.Valid() {
			out = append(out, h.Seq)
		}
	}
	return out
}

// Its death came before it had said where it starts.
func TestADeadWriterThatNeverSpoke(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true})
	n.match()
	n.wire = nil // its heartbeat is lost
	n.s.seq = 10
	for range 3 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.wire[0]()
	n.wire[2]()
	n.r.Unmatched(theWriter, true)
	n.r.Tick(time.Now().Add(returnFor + time.Second))
	if got, lost := sequences(n), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{11, 13}) || len(lost) != 1 || lost[0].Count != 1 {
		t.Errorf("got %v, told %v", got, lost)
	}
}

func TestANarrowReaderIsToldOfTheDead(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true})
	n.r.narrow = true
	n.r.Matched(Peer{GUID: theWriter, Reliable: true})
	n.s.Matched(Peer{GUID: theReader, Reliable: true, Instance: "k"})
	n.heal()
	for range 2 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.wire[0]()
	n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: 1, B: 2})
	n.r.Unmatched(theWriter, true)
	n.r.Tick(time.Now().Add(returnFor + time.Second))
	if got, lost := sequences(n), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{1}) || len(lost) != 1 || lost[0].Count != 1 {
		t.Errorf("got %v, told %v", got, lost)
	}
}

func TestADeadWritersSamplesAreDeliveredBehindAGap(t *testing.T) {
	n := withDeadWriter(t, 0, 5, 1, 3, 5)
	if got := sequences(n); !slices.Equal(got, []uint64{1}) {
		t.Errorf("got %v while it may come back", got)
	}
	n.wire[2-1]() // it was on its way
	if got := sequences(n); !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("got %v after another sample has come", got)
	}
	n.r.Tick(time.Now().Add(returnFor - time.Second))
	if lost := told[SampleLost](n.r.events); len(lost) > 0 {
		t.Errorf("told %v too early", lost)
	}
	n.r.Tick(time.Now().Add(returnFor + time.Second))
	x := cache.Selection{Instances: cache.Bit(cache.Alive)}
	if there, _ := n.r.Waits(&x); there {
		t.Error("a dead writer keeps its instance alive")
	}
	if got, lost := sequences(n), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{5}) || !slices.Equal(lost, []SampleLost{{theWriter, 1}}) {
		t.Errorf("got %v, told %v", got, lost)
	}
	n.wire[4-1]()
	if got := sequences(n); got != nil {
		t.Errorf("got %v after it was lost", got)
	}
}

func TestAWriterThatComesBackHasLostNothing(t *testing.T) {
	n := withDeadWriter(t, 0, 5, 1, 3)
	n.match()
	n.r.Tick(time.Now().Add(time.Hour))
	n.wire = nil
	n.heal()
	if got, lost := sequences(n), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) || len(lost) > 0 {
		t.Errorf("got %v, told %v", got, lost)
	}
}

func TestANewLifeOfAParticipantEndsTheWaitForTheOld(t *testing.T) {
	n := withDeadWriter(t, 2, 5, 1, 3, 5) // 5 has no room
	n.r.Matched(Peer{GUID: wire.GUID{Participant: "w", Incarnation: 2, Endpoint: "w1"}, Reliable: true})
	total := uint64(0)
	for _, lost := range told[SampleLost](n.r.events) {
		total += lost.Count
	}
	if got := sequences(n); !slices.Equal(got, []uint64{1, 3}) || total != 3 {
		t.Errorf("got %v, told that %d are lost", got, total)
	}
}

// It takes them as soon as there is room.
func TestAFullReaderTakesTheDeadWritersSamplesLater(t *testing.T) {
	n := withDeadWriter(t, 1, 3, 1, 3)
	n.r.Tick(time.Now().Add(returnFor + time.Second))
	if got, lost := sequences(n), told[SampleLost](n.r.events); !slices.Equal(got, []uint64{1, 3}) || len(lost) != 1 || lost[0].Count != 1 {
		t.Errorf("got %v, told %v", got, lost)
	}
	n.r.Tick(time.Now().Add(returnFor + 2*drainFor))
	if n.r.writers["w/w1"].accepted() {
		t.Error("the writer is still waited for")
	}
}
