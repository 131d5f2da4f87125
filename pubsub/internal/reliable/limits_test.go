package reliable

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// A writer for late joiners does not keep for ever what is over, and a reader that is
// there hears of it all.
func TestInstancesThatAreOverMakeRoom(t *testing.T) {
	for name, q := range map[string]Policies{
		"keep last": {Historic: true},
		"keep all":  {Historic: true, KeepAll: true},
		"transient": {Historic: true, Transient: true, Depth: 2},
	} {
		for _, there := range []bool{false, true} {
			for _, ends := range [][]wire.Status{{wire.StatusDispose}, {wire.StatusDispose, wire.StatusUnregister}, {wire.StatusUnregister}} {
				if name == "transient" && ends[0] == wire.StatusUnregister {
					continue // the value stays
				}
				t.Run(fmt.Sprint(name, there, ends), func(t *testing.T) {
					q.Reliable, q.MaxSamples = true, 8
					rq := q
					rq.KeepAll, rq.MaxSamples = true, 1000
					n := newLossyPair(q, rq)
					if there {
						n.match()
						n.heal()
					}
					for i := range 50 {
						for _, what := range append([]wire.Status{wire.StatusData}, ends...) {
							e := wire.Envelope{Schema: 7}
							e.Options.Status = what
							if _, err := n.s.TryWrite(fmt.Sprint(i), &e); err != nil {
								t.Fatalf("instance %d, %v: %v", i, what, err)
							}
						}
						n.heal()
					}
					if n.s.data > q.MaxSamples || len(n.s.held) > 2*q.MaxSamples || len(n.s.history) > q.MaxSamples || len(n.s.over) > 2*q.MaxSamples+64 {
						t.Errorf("%d samples, %d instances and %d ends of instances are held", len(n.s.held), len(n.s.history), len(n.s.over))
					}
					if !there {
						n.match()
						n.heal()
					}
					got := 0
					for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
						got++
					}
					if there && got != 100 {
						t.Errorf("the reader got %d values and changes of state, want 100", got)
					}
					if lost := told[SampleLost](n.r.events); len(lost) > 0 {
						t.Error(lost)
					}
				})
			}
		}
	}
}

// Dispose is what a full history is remedied by, so it must not wait for room. Neither does a
// change of state displace data that Depth promises to late joiners.
func TestAnInstanceEndsThoughTheHistoryIsFull(t *testing.T) {
	for name, q := range map[string]Policies{
		"keep last":          {Depth: 2, MaxSamples: 4},
		"keep all":           {KeepAll: true, MaxSamples: 4},
		"durability service": {KeepAll: true, Late: 2, MaxSamples: 4},
		"transient":          {Transient: true, Depth: 2, MaxSamples: 4},
	} {
		for _, end := range []wire.Status{wire.StatusDispose, wire.StatusUnregister} {
			t.Run(fmt.Sprint(name, end), func(t *testing.T) {
				q.Reliable, q.Historic = true, true
				n := newLossyPair(q, Policies{Reliable: true, Historic: true, KeepAll: true, MaxSamples: 1000})
				try := func(key string, what wire.Status) error {
					e := wire.Envelope{Schema: 7}
					e.Options.Status = what
					_, err := n.s.TryWrite(key, &e)
					return err
				}
				for _, key := range []string{"a", "a", "b", "b"} {
					if err := try(key, wire.StatusData); err != nil {
						t.Fatal(err)
					}
				}
				if err := try("c", wire.StatusData); !errors.Is(err, ErrFull) {
					t.Fatalf("a fifth sample: %v", err)
				}
				for range 10 { // more often than there are samples
					if err := try("a", end); err != nil {
						t.Fatal(err)
					}
				}
				n.wire = nil
				n.match()
				n.heal()
				data, ends := 0, 0
				for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
					if h.Valid() {
						data++
					} else {
						ends++
					}
				}
				want := 4
				if !q.KeepAll && end == wire.StatusDispose { // what is disposed of is of no interest
					want = 2
				}
				if data != want || want == 4 && ends != 1 {
					t.Errorf("a late joiner gets %d samples, want %d, and %d ends of instances", data, want, ends)
				}
				full := error(nil)
				if q.Transient && end == wire.StatusUnregister { // the value outlives it
					full = ErrFull
				}
				for _, key := range []string{"c", "c"} {
					if err := try(key, wire.StatusData); !errors.Is(err, full) {
						t.Errorf("a sample after that: %v", err)
					}
				}
			})
		}
	}
}

// A value that outlives its unregistration comes and goes as often as it likes.
func TestAnInstanceThatComesBackNeedsNoMoreRoom(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, Historic: true, Transient: true, Depth: 2, MaxSamples: 4})
	for i := range 100 {
		for _, what := range []wire.Status{wire.StatusData, wire.StatusUnregister} {
			e := wire.Envelope{Schema: 7}
			e.Options.Status = what
			if _, err := n.s.TryWrite("a", &e); err != nil {
				t.Fatalf("time %d, %v: %v", i, what, err)
			}
		}
	}
}

// However data and changes of state follow each other, and whether a reader is there or not,
// each kind stays within its bound, and late joiners get what they are promised.
func TestChangesOfStateAmongDataStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{Reliable: true, Historic: rapid.Bool().Draw(t, "historic"), KeepAll: rapid.Bool().Draw(t, "keep all"), MaxSamples: rapid.IntRange(4, 6).Draw(t, "most")}
		q.Transient = q.Historic && rapid.Bool().Draw(t, "transient")
		if !q.KeepAll {
			q.Depth = rapid.IntRange(1, 3).Draw(t, "depth")
		} else if q.Historic && !q.Transient {
			q.Late = rapid.IntRange(0, 3).Draw(t, "late")
		}
		n := newLossyPair(q, Policies{Reliable: true, KeepAll: true, MaxSamples: 1000})
		there := rapid.Bool().Draw(t, "there")
		if there {
			n.match()
			n.heal()
		}
		data := map[string][]uint64{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(n.wire) > 0 && rapid.Bool().Draw(t, "deliver") {
				n.step(0, rapid.SampledFrom([]string{"deliver", "deliver", "lose"}).Draw(t, "fate"))
				continue
			}
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			e := wire.Envelope{Schema: 7}
			e.Options.Status = rapid.SampledFrom([]wire.Status{wire.StatusData, wire.StatusData, wire.StatusDispose, wire.StatusUnregister}).Draw(t, "what")
			if _, err := n.s.TryWrite(key, &e); err != nil {
				continue
			}
			switch what := e.Options.Status; {
			case what == wire.StatusData:
				data[key] = append(data[key], n.s.seq)
			case what == wire.StatusDispose || !q.Transient: // it is over
				data[key] = nil
			}
			counted, listed := 0, 0
			for _, h := range n.s.held {
				if h.status == wire.StatusData {
					counted++
				}
			}
			for _, i := range n.s.history {
				listed += len(i.data) + len(i.states)
			}
			if states := len(n.s.held) - counted; n.s.data != counted || counted > q.MaxSamples || states > q.MaxSamples {
				t.Fatalf("%d samples are held, which count as %d, and %d changes of state", counted, n.s.data, states)
			}
			if (q.Historic || !q.KeepAll) && listed != len(n.s.held) {
				t.Fatalf("%d are held, and %d belong to instances", len(n.s.held), listed)
			}
			if promised := max(q.Depth, q.Late); q.Historic && promised > 0 {
				for key, all := range data {
					if want := all[max(0, len(all)-promised):]; len(n.s.ofInstance(key).data) < len(want) {
						t.Fatalf("of %v %v are held", want, n.s.ofInstance(key).data)
					}
				}
			}
		}
		n.heal()
		if lost := told[SampleLost](n.r.events); there && q.KeepAll && len(lost) > 0 {
			t.Fatalf("told %v", lost)
		}
	})
}
