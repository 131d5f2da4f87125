package observer_test

import (
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/observer"
)

// noted is a hold that passed Check from one time to the other.
type noted struct {
	robot     string
	life      int
	frequency string
	fence     uint64
	from, to  float64
}

func journal(holds ...noted) *observer.Journal {
	j := observer.NewJournal()
	for _, n := range holds {
		for _, s := range []float64{n.to, n.from, (n.from + n.to) / 2} { // in any order
			j.Note(n.robot, n.life, n.frequency, n.fence, at(s))
		}
	}
	return j
}

func TestJournalSeesOverlaps(t *testing.T) {
	for name, test := range map[string]struct {
		holds []noted
		want  observer.Overlaps
	}{
		"one after the other": {[]noted{{"a", 1, f1, 1, 1, 2}, {"b", 1, f1, 2, 2, 3}, {"a", 1, f1, 3, 4, 5}}, observer.Overlaps{}},
		"other frequencies":   {[]noted{{"a", 1, f1, 1, 1, 3}, {"b", 1, f2, 1, 2, 4}}, observer.Overlaps{}},
		"two at a time":       {[]noted{{"a", 1, f1, 1, 1, 3}, {"b", 1, f1, 2, 2, 4}}, observer.Overlaps{Intervals: 1}},
		"a moment inside":     {[]noted{{"a", 1, f1, 1, 1, 3}, {"b", 1, f1, 2, 2, 2}}, observer.Overlaps{Intervals: 1}},
		"two lives of a name": {[]noted{{"a", 1, f1, 1, 1, 3}, {"a", 2, f1, 2, 2, 4}}, observer.Overlaps{Intervals: 1}},
		"a fence goes back":   {[]noted{{"a", 1, f1, 2, 1, 2}, {"b", 1, f1, 1, 3, 4}}, observer.Overlaps{Fences: 1}},
		"a fence comes twice": {[]noted{{"a", 1, f1, 2, 1, 2}, {"b", 1, f1, 2, 3, 4}}, observer.Overlaps{Fences: 1}},
		"a fence lives twice": {[]noted{{"a", 1, f1, 2, 1, 2}, {"a", 2, f1, 2, 3, 4}}, observer.Overlaps{Fences: 1}},
	} {
		if got := journal(test.holds...).Overlaps(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestAirtimeIsOfALife(t *testing.T) {
	j := journal(noted{"a", 1, f1, 1, 1, 3}, noted{"a", 2, f1, 2, 4, 7}, noted{"a", 2, f2, 2, 8, 9}, noted{"b", 2, f1, 3, 7, 8})
	for since, want := range map[float64]time.Duration{0: 4 * time.Second, 5: 3 * time.Second, 8.5: 500 * time.Millisecond, 10: 0} {
		if got := j.Airtime("a", 2, at(since)); got != want {
			t.Errorf("since %v s: %v, want %v", since, got, want)
		}
	}
	if j.Entries() != 4 || j.Airtime("a", 3, at(0)) != 0 {
		t.Errorf("%d entries, %v of a life that never was", j.Entries(), j.Airtime("a", 3, at(0)))
	}
}
