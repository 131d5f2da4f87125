package reliable

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

func TestTheHistoryComesToABestEffortReaderOverALossyNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newLossyPair(Policies{Historic: true, KeepAll: true})
		written := 0
		write := func() {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
			written++
		}
		before := rapid.IntRange(0, 100).Draw(t, "before")
		for range before {
			write()
		}
		n.wire = nil
		n.match()
		var got []uint64
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 3:
				write()
			case op < 4:
				n.tick()
			case len(n.wire) > 0:
				i := rapid.IntRange(0, len(n.wire)-1).Draw(t, "message")
				n.step(i, rapid.SampledFrom([]string{"deliver", "lose", "repeat", "deliver"}).Draw(t, "fate"))
			}
			got = append(got, sequences(n)...)
		}
		if !n.heal() {
			t.Fatal("the two never come to rest")
		}
		got = append(got, sequences(n)...)
		if len(got) < before {
			t.Fatalf("%d of a history of %d: %v", len(got), before, got)
		}
		for i, seq := range got {
			if i < before && seq != uint64(i+1) || i > 0 && seq <= got[i-1] {
				t.Fatalf("sample %d is number %d: %v", i+1, seq, got)
			}
		}
		if lost := told[SampleLost](n.r.events); len(lost) > 0 {
			t.Fatal(lost)
		}
		write()
		n.heal()
		if got := sequences(n); !slices.Equal(got, []uint64{uint64(written)}) {
			t.Fatalf("afterwards it got %v of %d", got, written)
		}
		if w := n.r.writers["w/w1"]; w.reliable || len(w.early) > 0 || n.s.readers[theReader].reliable {
			t.Fatal("they have not come back to best effort")
		}
	})
}

// A reader counts a writer once it knows where it begins. What tells it that may be lost,
// and nothing need be written that would make it ask again.
func TestAReaderIsToldWhereItBeginsOverALossyNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newLossyPair(Policies{Reliable: rapid.Bool().Draw(t, "reliable"), Historic: rapid.Bool().Draw(t, "historic"), KeepAll: true})
		n.match()
		for len(n.wire) > 0 {
			i := rapid.IntRange(0, len(n.wire)-1).Draw(t, "message")
			n.step(i, rapid.SampledFrom([]string{"deliver", "lose"}).Draw(t, "fate"))
		}
		n.heal()
		if m, _ := n.r.Matches(); m != 1 || !n.r.writers["w/w1"].started {
			t.Fatalf("%d writers count, and it does not begin", m)
		}
		if n.tick(); len(n.wire) > 0 {
			t.Fatal("it knows, and is told again")
		}
	})
}

// A reader that never has the history holds up a best-effort writer as little as its memory.
func TestWhatIsSurplusIsForgotten(t *testing.T) {
	n := newLossyPair(Policies{Historic: true, KeepAll: true, DurabilityService: 3, MaxSamples: 20})
	for i := range 10_000 {
		if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
		if n.wire = nil; i == 0 {
			n.s.Matched(Peer{GUID: theReader, Historic: true})
		}
	}
	if held, surplus := len(n.s.held), len(n.s.surplus); held > 20 || surplus > 200 {
		t.Errorf("%d samples and %d numbers are held", held, surplus)
	}
}
