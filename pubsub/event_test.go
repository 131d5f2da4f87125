package pubsub

import (
	"slices"
	"testing"
)

// What is lost one by one is told as one loss for each writer, while nobody listens.
func TestLossesAreAddedUp(t *testing.T) {
	counted := 0
	e := newEvents(func(Event) { counted++ })
	a, b := GUID{"a", 1, "w1"}, GUID{"b", 1, "w1"}
	e.add(Matched{a})
	for range 2 * maxEvents {
		e.add(SampleLost{a, 1})
	}
	e.add(SampleLost{b, 3})
	e.add(SampleLost{a, 2})
	e.add(Unmatched{a})
	e.add(SampleLost{a, 1})
	var got []Event
	for ev, ok := e.next(); ok; ev, ok = e.next() {
		got = append(got, ev)
	}
	if want := []Event{Matched{a}, SampleLost{a, 2 * maxEvents}, SampleLost{b, 3}, SampleLost{a, 2}, Unmatched{a}, SampleLost{a, 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if counted != 2*maxEvents+5 {
		t.Errorf("%d were counted", counted)
	}
}
