package reliable

import (
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

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
