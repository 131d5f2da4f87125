package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// The draws of a participant are what it asks for in a run, whatever else happens there: when
// arrivals are open also at which instants, and in a closed loop how long after each end.
func TestDrawsAreWhatARunAsksFor(t *testing.T) {
	for name, change := range map[string]func(*Workload){
		"closed":  func(w *Workload) { w.Think = Exponential(2 * second) },
		"settled": func(w *Workload) { w.Think, w.Settled = Exponential(2*second), true },
		"open":    func(w *Workload) { w.Every = Exponential(3 * second) },
	} {
		t.Run(name, func(t *testing.T) {
			sc := star(3)
			sc.Seed, sc.Duration = 7, 100*second
			sc.Workload = Workload{
				Resources: []string{"crane", "winch"}, Hold: Exponential(second), Priorities: []int64{1, 2, 3},
				Deadlines: []protocol.Duration{50 * second, 60 * second, 70 * second},
			}
			change(&sc.Workload)
			sc.Settings.Resources = sc.Workload.Resources
			open := sc.Workload.open()
			type state struct {
				*Draws
				due   protocol.Time
				holds map[string]protocol.Duration // by resource and fence
				asked int
			}
			all := map[string]*state{}
			for i := range sc.Participants {
				d := sc.Draws(i)
				s := &state{Draws: d, holds: map[string]protocol.Duration{}}
				if len(d.workload.Resources) > 0 {
					s.due = sc.Start + d.First()
				}
				all[sc.Participants[i].ID] = s
			}
			var gap protocol.Duration
			sc.Trace = func(r *Record) {
				s := all[r.Node]
				switch {
				case r.Event == Requested:
					var want Request
					want, gap = s.Next()
					if r.At != s.due || r.Resource != want.Resource || r.Priority != want.Priority {
						t.Fatalf("request %d of %s: at %d for %s with %d, drawn was %d, %s, %d", s.asked, r.Node, r.At, r.Resource, r.Priority, s.due, want.Resource, want.Priority)
					}
					s.asked++
					s.due = protocol.Never
					if open {
						s.due = r.At + gap
					} else {
						s.holds["gap"], s.holds["hold"] = gap, want.Hold
					}
				case r.Event == Entered && !open:
					s.holds["since"] = r.At
				case r.Event == Left && !open:
					if r.At-s.holds["since"] != s.holds["hold"] {
						t.Fatalf("%s held for %d, drawn was %d", r.Node, r.At-s.holds["since"], s.holds["hold"])
					}
					s.due = r.At + s.holds["gap"]
				}
			}
			if _, err := mustNew(t, "", sc).Run(); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"A", "B", "C"} {
				if all[id].asked < 5 {
					t.Errorf("%s asked %d times", id, all[id].asked)
				}
			}
		})
	}
}

func TestMeasuredLatency(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m := Measured{Base: Constant(second), Samples: []protocol.Duration{1, 5}}
	seen := map[protocol.Duration]int{}
	for range 100 {
		seen[DrawLatency(m, r, 0, 1)]++
	}
	if len(seen) != 2 || seen[second+1] < 20 || seen[second+5] < 20 || m.greatestOf() != second+5 {
		t.Errorf("%v, the greatest is %d", seen, m.greatestOf())
	}
	for _, bad := range []Measured{{}, {Samples: []protocol.Duration{-1}}, {Samples: []protocol.Duration{1}, Base: Constant(-1)}} {
		if err := bad.check(2); !errors.Is(err, ErrScenario) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func ExampleScenario_Draws() {
	sc := Scenario{
		Seed: 1, Participants: Tree(2, 2, false),
		Workload: Workload{Resources: []string{"crane"}, Hold: Constant(second), Think: Exponential(10 * second)},
	}
	d := sc.Draws(1)
	fmt.Println("first at", d.First())
	for range 2 {
		r, gap := d.Next()
		fmt.Printf("%s for %d s, and %.1f s later again\n", r.Resource, r.Hold/second, float64(gap)/float64(second))
	}
	// Output:
	// first at 0
	// crane for 1 s, and 19.5 s later again
	// crane for 1 s, and 14.2 s later again
}

func ExampleDraws_First() {
	sc := Scenario{
		Participants: Tree(1, 2, false),
		Workload:     Workload{Resources: []string{"crane"}, Hold: Constant(second), Think: Constant(10 * second), Settled: true},
	}
	fmt.Println(sc.Draws(0).First() / second)
	// Output: 10
}

func ExampleDraws_Next() {
	sc := Scenario{Participants: Tree(1, 2, false), Workload: Workload{Resources: []string{"crane"}, Hold: Constant(second), Every: Constant(3 * second)}}
	d := sc.Draws(0)
	first := d.First()
	r, gap := d.Next()
	fmt.Println(r.Resource, first/second, (first+gap)/second)
	// Output: crane 3 6
}

func ExampleDrawLatency() {
	between := Matrix{Each: [][]protocol.Duration{{0, 40 * protocol.Millisecond}, {40 * protocol.Millisecond, 0}}}
	fmt.Println(DrawLatency(between, rand.New(rand.NewPCG(1, 1)), 0, 1) / protocol.Millisecond)
	// Output: 40
}

func ExampleSampleOf() {
	s := SampleOf(slices.Repeat([]protocol.Duration{3 * second, second}, 50)...)
	fmt.Println(s.Count(), s.Mean()/second, s.Quantile(0.99)/second)
	// Output: 100 2 3
}
