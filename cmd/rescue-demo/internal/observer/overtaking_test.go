package observer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/observer"
	"padme/qosmutex"
)

// TestOvertakingUnderFair: a waits from 1 to 9; others ask and enter meanwhile.
func TestOvertakingUnderFair(t *testing.T) {
	const forward, use = "fair-forward-forward-forward", "fair-forward-use-use"
	waits := stay("a/1", f1, 90, 5, 1, 9, 10)
	only := func(resource string) []qosmutex.Event {
		all := slices.Clone(waits)
		all[0].Resource = resource
		return all
	}
	later := slices.Concat(stay("b/1", f1, 1, 5, 3, 3.5, 4), stay("c/1", f2, 1, 5, 4, 5, 6), stay("b/2", f1, 2, 5, 5, 7, 8))
	earlier := stay("c/2", f2, 9, 5, 0.5, 2, 3)
	for _, test := range []struct {
		name    string
		models  []string // in force from 0, 2, 4 … on
		waits   []qosmutex.Event
		others  []qosmutex.Event
		cut     float64 // when a was cut off; 0: never
		returns float64
		longest time.Duration
		most    int
		bounded bool
	}{
		{"later ones count", []string{forward}, waits, later, 0, 0, 8 * time.Second, 3, true},
		{"earlier ones do not", []string{forward}, waits, earlier, 0, 0, 8 * time.Second, 0, true},
		{"for what it wants", []string{forward}, only(f1), later, 0, 0, 8 * time.Second, 2, true},
		{"who waits still", []string{forward}, waits[:1], later, 0, 0, 11 * time.Second, 3, true},
		{"under level nothing counts", []string{"level-forward-forward-forward"}, waits, later, 0, 0, 0, 0, false},
		{"with use nothing is promised", []string{use}, waits, later, 0, 0, 8 * time.Second, 0, false},
		{"from the switch on", []string{"level-forward-forward-forward", "level-forward-forward-forward", forward}, waits, later, 0, 0, 5 * time.Second, 1, true},
		{"until the next switch", []string{forward, forward, use}, waits, later, 0, 0, 5 * time.Second, 1, true},
		{"from its return on", []string{forward}, waits, later, 2, 4.5, 4500 * time.Millisecond, 1, true},
		{"until it is cut off", []string{forward}, waits, later, 6, 8.5, 5 * time.Second, 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := observer.NewHistory()
			for i, m := range test.models {
				h.Models(at(float64(2*i)), m)
			}
			if test.returns > 0 {
				h.Presence("a", 1, true, at(0))
				h.Presence("a", 1, false, at(test.cut))
				h.Presence("a", 1, true, at(test.returns))
			}
			for _, e := range slices.Concat(test.waits, test.others) {
				h.Event(e)
			}
			f := h.Report(at(12)).Fair
			if f.Longest != test.longest || f.Overtaken != test.most || f.Bounded != test.bounded {
				t.Errorf("waited %v, overtaken by %d, bounded %v; want %v, %d, %v", f.Longest, f.Overtaken, f.Bounded, test.longest, test.most, test.bounded)
			}
			if who := fmt.Sprint(f.LongestOf, f.OvertakenOf); test.longest > 0 && f.LongestOf != "a" || test.most > 0 && f.OvertakenOf != "a" {
				t.Errorf("it was %s", who)
			}
		})
	}
}

// Whoever is cut off cannot be served.
func TestOvertakingLeavesOutWhoIsCutOff(t *testing.T) {
	h := observer.NewHistory()
	h.Models(at(0), "fair-forward-forward-forward")
	h.Event(event("requested", "a/1", qosmutex.Any, 5, 1))
	h.Presence("a", 1, true, at(0))
	h.Presence("a", 1, false, at(2))
	for _, e := range stay("b/1", f1, 1, 5, 3, 3, 4) {
		h.Event(e)
	}
	if f := h.Report(at(12)).Fair; f.Longest != time.Second || f.Overtaken != 0 {
		t.Errorf("%+v", f)
	}
}
