package reliable

import (
	"errors"
	"fmt"
	"testing"

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
							if err := n.s.TryWrite(fmt.Sprint(i), &e); err != nil {
								t.Fatalf("instance %d, %v: %v", i, what, err)
							}
						}
						n.heal()
					}
					if len(n.s.held) > 2*q.MaxSamples || len(n.s.history) > q.MaxSamples || len(n.s.over) > 2*q.MaxSamples+64 {
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

// Dispose is what a full history is remedied by, so it must not wait for room itself.
func TestAnInstanceEndsThoughTheHistoryIsFull(t *testing.T) {
	for name, q := range map[string]Policies{
		"keep last":          {Depth: 4, MaxSamples: 4},
		"keep all":           {KeepAll: true, MaxSamples: 4},
		"durability service": {KeepAll: true, DurabilityService: 2, MaxSamples: 4},
		"best effort":        {KeepAll: true, MaxSamples: 4},
	} {
		for _, end := range []wire.Status{wire.StatusDispose, wire.StatusUnregister} {
			t.Run(fmt.Sprint(name, end), func(t *testing.T) {
				q.Reliable, q.Historic = name != "best effort", true
				n := newLossyPair(q)
				try := func(key string, what wire.Status) error {
					e := wire.Envelope{Schema: 7}
					e.Options.Status = what
					err := n.s.TryWrite(key, &e)
					return err
				}
				for _, key := range []string{"a", "a", "b", "b"} {
					if err := try(key, wire.StatusData); err != nil {
						t.Fatal(err)
					}
				}
				if err := try("c", wire.StatusData); q.Reliable && !errors.Is(err, ErrFull) {
					t.Fatalf("a fifth sample: %v", err)
				}
				for _, key := range []string{"a", "b"} {
					if err := try(key, end); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 10 {
					if err := try("c", wire.StatusData); i < 4 && err != nil {
						t.Fatalf("sample %d after that: %v", i, err)
					}
					if len(n.s.held) > q.MaxSamples {
						t.Fatalf("%d are held", len(n.s.held))
					}
				}
			})
		}
	}
}
