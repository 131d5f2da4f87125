package observer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func event(kind, request, frequency string, priority int64, seconds float64) qosmutex.Event {
	return qosmutex.Event{Event: kind, Topic: "frequencies", Participant: request[:1], Request: request, Resource: frequency, Priority: priority, At: at(seconds)}
}

// stay is one request with its hold, from asking to leaving.
func stay(request, frequency string, fence uint64, priority int64, asked, entered, left float64) []qosmutex.Event {
	granted := event("granted", request, frequency, priority, entered)
	granted.Fence, granted.Waited = fmt.Sprint(fence), entered-asked
	released := event("released", request, frequency, priority, left)
	released.Fence = granted.Fence
	return []qosmutex.Event{event("requested", request, qosmutex.Any, priority, asked), granted, released}
}

func report(now float64, events ...[]qosmutex.Event) observer.Report {
	h := observer.NewHistory()
	for _, e := range slices.Concat(events...) {
		h.Event(e)
	}
	return h.Report(at(now))
}

const f1, f2 = "146.520", "446.000"

func TestHoldsOneAfterTheOtherDoNotOverlap(t *testing.T) {
	r := report(9, stay("a/1", f1, 1, 5, 0, 1, 2), stay("b/1", f1, 2, 5, 0, 2, 3), stay("c/1", f2, 1, 5, 0, 1, 3))
	if r.Overlaps.Total() != 0 || r.Entries != 3 || r.Pending != 0 || r.Losses != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestOverlapsAreCounted(t *testing.T) {
	unended := stay("a/1", f1, 1, 5, 0, 1, 2)[:2]
	lost := stay("a/1", f1, 1, 5, 0, 1, 4)
	lost[2].Event = "lost"
	tests := []struct {
		name   string
		events [][]qosmutex.Event
		want   observer.Overlaps
	}{
		{"two inside", [][]qosmutex.Event{stay("a/1", f1, 1, 5, 0, 1, 3), stay("b/1", f1, 2, 5, 0, 2, 4)}, observer.Overlaps{Intervals: 1}},
		{"one inside the other", [][]qosmutex.Event{stay("a/1", f1, 1, 5, 0, 1, 9), stay("b/1", f1, 2, 5, 0, 2, 4)}, observer.Overlaps{Intervals: 1}},
		{"three inside are three pairs", [][]qosmutex.Event{
			stay("a/1", f1, 1, 5, 0, 1, 9), stay("b/1", f1, 2, 5, 0, 2, 9), stay("c/1", f1, 3, 5, 0, 3, 9),
		}, observer.Overlaps{Intervals: 3}},
		{"never released", [][]qosmutex.Event{unended, stay("b/1", f1, 2, 5, 0, 5, 6)}, observer.Overlaps{Intervals: 1}},
		{"lost too late", [][]qosmutex.Event{lost, stay("b/1", f1, 2, 5, 0, 3, 5)}, observer.Overlaps{Intervals: 1}},
		{"a request granted twice", [][]qosmutex.Event{stay("a/1", f1, 1, 5, 0, 1, 3), stay("a/1", f1, 2, 5, 0, 2, 4)}, observer.Overlaps{Intervals: 1}},
		{"fence falls", [][]qosmutex.Event{stay("a/1", f1, 7, 5, 0, 1, 2), stay("b/1", f1, 6, 5, 0, 3, 4)}, observer.Overlaps{Fences: 1}},
		{"fence repeats", [][]qosmutex.Event{stay("a/1", f1, 7, 5, 0, 1, 2), stay("b/1", f1, 7, 5, 0, 3, 4)}, observer.Overlaps{Fences: 1}},
		{"fences of other frequencies do not matter", [][]qosmutex.Event{stay("a/1", f1, 7, 5, 0, 1, 2), stay("b/1", f2, 6, 5, 0, 1, 4)}, observer.Overlaps{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := report(10, test.events...).Overlaps; got != test.want {
				t.Fatalf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestUnseenEventsAreFilledIn(t *testing.T) {
	a, b, next := stay("a/1", f1, 1, 5, 0, 1, 2), stay("b/1", f1, 2, 5, 0, 3, 4), stay("a/2", f1, 3, 5, 2, 5, 6)
	noEnd := report(10, a[:2], b, next)
	if noEnd.Overlaps.Total() != 0 || noEnd.Entries != 3 {
		t.Errorf("the next request does not end a hold without a release: %+v", noEnd)
	}
	if r := report(10, a[:2], b); r.Overlaps.Intervals != 1 {
		t.Errorf("a hold without any sign of an end does not last: %+v", r.Overlaps)
	}
	a[2].Held = 1
	noGrant := report(10, a[:1], a[2:], b, next)
	if noGrant.Entries != 3 || noGrant.Pending != 0 || noGrant.Classes[3].AirtimeLevel != 3*time.Second {
		t.Errorf("a release does not tell of the entry: %+v", noGrant)
	}
	a[2].Held, a[2].At = 3, at(3.5)
	if r := report(10, a[2:], b, next); r.Overlaps.Intervals != 1 {
		t.Errorf("an overlap known from the release alone: %+v", r.Overlaps)
	}
}

func TestDeadRobotHoldsNothing(t *testing.T) {
	h := observer.NewHistory()
	for _, e := range slices.Concat(stay("a/1", f1, 1, 5, 0, 1, 3)[:2], stay("b/1", f1, 2, 5, 0, 5, 6)) {
		h.Event(e)
	}
	h.Presence("a", 1, false, at(4))
	h.Presence("a", 1, false, at(5.5)) // the same death, told again
	if r := h.Report(at(10)); r.Overlaps.Total() != 0 {
		t.Errorf("%+v after its death", r.Overlaps)
	}
	h.Presence("a", 1, true, at(5))
	if r := h.Report(at(10)); r.Overlaps.Intervals != 1 {
		t.Errorf("%+v although it came back", r.Overlaps)
	}
	h.Presence("a", 1, false, at(5.5))
	if r := h.Report(at(10)); r.Overlaps.Intervals != 1 {
		t.Errorf("%+v although it lived when the other entered", r.Overlaps)
	}
}

func TestProgressWaitsForTheEndOfAHold(t *testing.T) {
	h := observer.NewHistory()
	a, b := stay("a/1", f1, 1, 5, 0, 1, 3), stay("b/1", f1, 2, 5, 0, 2, 4)
	for _, e := range slices.Concat(a[:2], b) {
		h.Event(e)
	}
	if p := h.Progress(); p.Entries != 2 || p.Overlaps.Total() != 0 {
		t.Errorf("%+v before the end of the first hold is known", p)
	}
	h.Event(a[2])
	if p := h.Progress(); p.Overlaps.Intervals != 1 {
		t.Errorf("%+v, want the overlap", p)
	}
}

func TestFrameOfAFormerHolderIsAnOverlap(t *testing.T) {
	h := observer.NewHistory()
	for _, fence := range []uint64{3, 3, 4, 4} {
		h.Frame(f1, fence)
	}
	h.Frame(f2, 1)
	if n := h.Report(at(0)).Overlaps.Frames; n != 0 {
		t.Fatalf("%d overlaps in rising fences", n)
	}
	h.Frame(f1, 3)
	h.Frame(f1, 4)
	h.Frame(f1, 2)
	if r := h.Report(at(0)); r.Overlaps.Frames != 2 || r.Frames != 8 {
		t.Fatalf("%+v, want 2 of 8 frames to be counted", r)
	}
}

func TestInversionNeedsAMoreImportantRequestAtTheEntry(t *testing.T) {
	waiting := func(request, resource string, priority int64, asked float64) []qosmutex.Event {
		return []qosmutex.Event{event("requested", request, resource, priority, asked)}
	}
	less := stay("a/1", f1, 1, 5, 0, 2, 3)
	tests := []struct {
		name  string
		other []qosmutex.Event
		want  int
	}{
		{"more important waits", waiting("b/1", qosmutex.Any, 4, 1), 1},
		{"equal waits", waiting("b/1", qosmutex.Any, 5, 1), 0},
		{"comes later", waiting("b/1", qosmutex.Any, 4, 2.5), 0},
		{"for the same frequency", waiting("b/1", f1, 4, 1), 1},
		{"for another frequency", waiting("b/1", f2, 4, 1), 0},
		{"withdrawn before", append(waiting("b/1", qosmutex.Any, 4, 1), event("withdrawn", "b/1", "", 4, 1.5)), 0},
		{"denied after", append(waiting("b/1", qosmutex.Any, 4, 1), event("denied", "b/1", "", 4, 2.5)), 1},
		{"entered before", stay("b/1", f2, 1, 4, 1, 1.5, 9), 0},
		{"becomes important before", append(waiting("b/1", qosmutex.Any, 9, 1), event("reprioritised", "b/1", qosmutex.Any, 4, 1.5)), 1},
		{"becomes important after", append(waiting("b/1", qosmutex.Any, 9, 1), event("reprioritised", "b/1", qosmutex.Any, 4, 2.5)), 0},
		{"is no longer important", append(waiting("b/1", qosmutex.Any, 4, 1), event("reprioritised", "b/1", qosmutex.Any, 9, 1.5)), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := report(10, less, test.other).Inversions; got != (observer.Inversions{Pending: test.want, Level: test.want}) {
				t.Fatalf("%+v, want %d", got, test.want)
			}
		})
	}
}

func TestModelsDivideInversionsAndAirtime(t *testing.T) {
	h := observer.NewHistory()
	h.Models(at(-1), "level-forward-forward-forward")
	change := event("models", "r/1", "", 0, 10)
	change.Models = "fair-forward-forward-forward"
	unimportant, important := scenario.Priority(0), scenario.Priority(7)
	for _, e := range slices.Concat(
		[]qosmutex.Event{event("requested", "z/1", qosmutex.Any, important, 0), change, change},
		stay("a/1", f1, 1, unimportant, 0, 4, 7),
		stay("a/2", f1, 2, unimportant, 8, 9, 12),
		stay("a/3", f1, 3, unimportant, 12, 13, 14),
	) {
		h.Event(e)
	}
	r := h.Report(at(20))
	if r.Inversions != (observer.Inversions{Pending: 3, Level: 2, Fair: 1}) {
		t.Errorf("%+v", r.Inversions)
	}
	if c := r.Classes[0]; c.AirtimeLevel != 4*time.Second || c.AirtimeFair != 3*time.Second {
		t.Errorf("airtime %v and %v, want 4s and 3s", c.AirtimeLevel, c.AirtimeFair)
	}
	if !r.Switched.Equal(at(10)) || r.Pending != 1 {
		t.Errorf("switched at %v with %d pending", r.Switched, r.Pending)
	}
	if c := r.Classes[0].Wait; c.Count != 3 || c.Max != 4*time.Second || c.P50 != time.Second || c.Mean != 2*time.Second {
		t.Errorf("waits %+v", c)
	}
}

func TestSyncDelayCountsOnlyWhenSomebodyWaited(t *testing.T) {
	lost := stay("d/1", f1, 4, 5, 6, 7, 8)
	lost[2].Event = "lost"
	r := report(20,
		stay("a/1", f1, 1, 5, 0, 1, 2),
		stay("b/1", f1, 2, 5, 0, 2.25, 3), // waited: 0.25 s
		stay("c/1", f1, 3, 5, 5, 5.5, 6),  // nobody waited at 3
		lost,                              // asked at the instant of the release: 1 s
		stay("e/1", f1, 5, 5, 6, 9, 10),   // after a loss
	)
	want := observer.Delay{Count: 2, Mean: 625 * time.Millisecond, P50: 250 * time.Millisecond, P99: time.Second, Max: time.Second}
	if r.SyncDelay != want {
		t.Fatalf("%+v, want %+v", r.SyncDelay, want)
	}
	if r.Losses != 1 {
		t.Fatalf("%d losses, want 1", r.Losses)
	}
}

func TestEventsWithoutSenseAreIgnored(t *testing.T) {
	noFence, zero := event("granted", "a/1", f1, 5, 1), event("granted", "a/1", f1, 5, 1)
	noFence.Fence, zero.Fence = "many", "0"
	noTime := event("requested", "a/1", f1, 5, 1)
	noTime.At = time.Time{}
	if r := report(2, []qosmutex.Event{noFence, zero, noTime}); r.Ignored != 3 || r.Entries != 0 {
		t.Fatalf("%+v, want 3 ignored", r)
	}
}

// history draws a run in which nothing is wrong: on each frequency one stay after
// another, with rising fences.
func history(t *rapid.T) (events []qosmutex.Event, clash []qosmutex.Event, end float64) {
	n := 0
	for _, frequency := range []string{f1, f2} {
		now, fence := 0.0, uint64(0)
		for range rapid.IntRange(1, 12).Draw(t, "stays") {
			n++
			entered := now + rapid.Float64Range(0, 2).Draw(t, "gap")
			left := entered + rapid.Float64Range(0.01, 2).Draw(t, "hold")
			asked := entered - rapid.Float64Range(0, 5).Draw(t, "wait")
			fence += rapid.Uint64Range(1, 5).Draw(t, "fence")
			priority := rapid.Int64Range(0, 9).Draw(t, "priority")
			events = append(events, stay(fmt.Sprintf("%c/%d", 'a'+n%8, n), frequency, fence, priority, asked, entered, left)...)
			clash = stay("x/1", frequency, fence+1, 5, asked, entered+(left-entered)/2, left+1)
			now = left
			end = max(end, left)
		}
	}
	return events, clash, end
}

func TestArrivalOrderAndRepetitionDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, clash, end := history(t)
		ordered := report(end, events)
		if ordered.Overlaps.Total() != 0 {
			t.Fatalf("found %+v in a correct history", ordered.Overlaps)
		}
		mixed := slices.Concat(events, events[:len(events)/2])
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if diff := cmp.Diff(ordered, report(end, mixed)); diff != "" {
			t.Fatalf("another order of arrival changed the report (-in order +mixed):\n%s", diff)
		}
		if r := report(end, mixed, clash); r.Overlaps.Intervals != 1 {
			t.Fatalf("%+v with one hold too many", r.Overlaps)
		}
	})
}

func TestInversionsMatchTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, _, end := history(t)
		want := 0
		for i := 0; i < len(events); i += 3 {
			granted := events[i+1]
			for j := 0; j < len(events); j += 3 {
				waits := !events[j].At.After(granted.At) && events[j+1].At.After(granted.At)
				if waits && events[j].Priority < granted.Priority {
					want++
					break
				}
			}
		}
		if got := report(end, events).Inversions.Pending; got != want {
			t.Fatalf("%d inversions, want %d", got, want)
		}
	})
}

// A robot that was killed inside and started again had left when it died, and not
// when its next life asks.
func TestAnotherLifeHoldsNothingOfTheLast(t *testing.T) {
	again := stay("a/2", f1, 3, 5, 6, 7, 8)
	for _, announced := range []bool{true, false} {
		h := observer.NewHistory()
		h.Presence("a", 1, true, at(0))
		for _, e := range slices.Concat(stay("a/1", f1, 1, 5, 0, 1, 3)[:2], stay("b/1", f1, 2, 5, 0, 5, 5.5), again) {
			h.Event(e)
		}
		if r := h.Report(at(10)); r.Overlaps.Intervals != 1 {
			t.Errorf("the check cannot fail: %+v", r.Overlaps)
		}
		if announced {
			h.Presence("a", 1, false, at(4))
		}
		h.Presence("a", 2, true, at(4.5))
		if r := h.Report(at(10)); r.Overlaps.Total() != 0 {
			t.Errorf("death announced: %v: %+v", announced, r.Overlaps)
		}
	}
}

// A model that comes back is the same model.
func TestAirtimeIsOfAModel(t *testing.T) {
	h := observer.NewHistory()
	for i, models := range []string{"level-forward-forward-forward", "fair-forward-forward-forward", "fair-forward-use-use", "level-forward-use-use"} {
		h.Models(at(float64(2*i)), models)
	}
	for _, e := range stay("a/1", f1, 1, scenario.Priority(0), 0, 1, 9) {
		h.Event(e)
	}
	r := h.Report(at(10))
	if c := r.Classes[0]; c.AirtimeLevel != 4*time.Second || c.AirtimeFair != 4*time.Second {
		t.Errorf("airtime under level %v, under fair %v, want 4s each", c.AirtimeLevel, c.AirtimeFair)
	}
	if len(r.Phases) != 3 || r.FairAt(at(1)) || !r.FairAt(at(2)) || !r.FairAt(at(5)) || r.FairAt(at(6)) {
		t.Errorf("phases %v", r.Phases)
	}
}

// An operator may change the other models at any time.
func TestSwitchIsOfThePriorityModel(t *testing.T) {
	h := observer.NewHistory()
	h.Models(at(0), "level-forward-forward-forward")
	h.Models(at(1), "level-replace-use-use")
	if r := h.Report(at(10)); !r.Switched.IsZero() {
		t.Errorf("switched at %v", r.Switched)
	}
	h.Models(at(2), "fair-replace-use-use")
	h.Models(at(3), "level-replace-use-use")
	if r := h.Report(at(10)); !r.Switched.Equal(at(2)) {
		t.Errorf("switched at %v, want the first time", r.Switched)
	}
}

// Views and events take different connections. A view that comes after the event of a later
// change is no change back, and one that stands is a change whose event was lost.
func TestAViewThatComesLateIsNoChange(t *testing.T) {
	const level, fair = "level-forward-forward-forward", "fair-forward-forward-forward"
	h := observer.NewHistory()
	h.Models(at(0), level)
	h.View(at(1), level)
	h.Event(qosmutex.Event{Event: qosmutex.EventModels, At: at(10), Models: fair})
	h.View(at(10.2), level) // of a member that came just before
	if r := h.Report(at(11)); len(r.Phases) != 2 {
		t.Errorf("phases %v", r.Phases)
	}
	h.View(at(11.1), fair)
	if r := h.Report(at(20)); len(r.Phases) != 2 || !r.FairAt(at(10)) {
		t.Errorf("phases %v", r.Phases)
	}
	h.View(at(21), level)
	for range 2 {
		if r := h.Report(at(30)); len(r.Phases) != 3 || !r.FairAt(at(20)) || r.FairAt(at(21)) {
			t.Errorf("phases %v", r.Phases)
		}
	}
}

func TestStaysAreTheLastInOrder(t *testing.T) {
	h := observer.NewHistory()
	a, b, c := stay("a/1", f1, 1, 5, 0, 1, 2), stay("b/1", f1, 2, 5, 0, 3, 4), stay("c/1", f1, 3, 5, 0, 5, 6)
	for _, e := range slices.Concat(c[:2], b, a) {
		h.Event(e)
	}
	got := h.Stays(2)
	if len(got) != 2 || got[0].Participant != "b" || !got[0].To.Equal(at(4)) || got[1].Participant != "c" || !got[1].To.IsZero() {
		t.Errorf("%+v", got)
	}
}

// A class that gets nothing has no waits that ended with an entry; it has waited all the same.
func TestWaitsInVainAreOfRequestsWithoutAnEntry(t *testing.T) {
	const none, one, many = 9, 8, 3 // priorities of who sees 0, 1 and 6 survivors
	r := report(20,
		stay("a/1", f1, 1, none, 0, 9, 10),                                  // entered after a long wait
		[]qosmutex.Event{event("requested", "b/1", qosmutex.Any, none, 14)}, // waits still
		[]qosmutex.Event{event("requested", "c/1", qosmutex.Any, one, 2), event("withdrawn", "c/1", qosmutex.Any, one, 6)},
		[]qosmutex.Event{event("requested", "d/1", qosmutex.Any, none, 1), event("reprioritised", "d/1", qosmutex.Any, many, 3)},
	)
	want := [scenario.Classes]time.Duration{6 * time.Second, 4 * time.Second, 0, 19 * time.Second}
	for class, c := range r.Classes {
		if c.InVain != want[class] {
			t.Errorf("class %v waited %v in vain, want %v", scenario.Class(class), c.InVain, want[class])
		}
	}
}
