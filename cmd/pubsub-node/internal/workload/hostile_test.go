package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/cmd/internal/recording"
	"padme/qosmutex"
)

// viewOf is a view of the lock.
func viewOf(text string) recording.Message {
	return recording.Message{Levels: []string{"lock", "crane", "view"}, Text: `{"topic":"crane",` + text + "}"}
}

// Names are text, whatever is in them: they neither add keys nor end a comment.
func TestNamesCannotInject(t *testing.T) {
	names := []string{
		"a\nthink: 0s", "b}", "- {id: x}", "#", "null", "1e3", "'\"", "*x", "&y !z", "{id: w, every: 1s}", "\u2028\x00\x1b[2J", " lead", "ü", "---", "?",
		"a, b", "resource-1", strings.Repeat("n", 500),
	}
	var people []person
	for _, n := range names {
		people = append(people, person{name: n, resource: n, cs: constant(1), think: exponential(20)})
	}
	s := described(t, messages(t, lived(1, time.Hour, people...)))
	var ids, asked []string
	for _, p := range s.Participants {
		ids = append(ids, p.ID)
		asked = append(asked, p.AsksFor...)
	}
	slices.Sort(names)
	if !slices.Equal(ids, names) {
		t.Errorf("%q\n%q", ids, names)
	}
	for _, name := range append(asked, s.AsksFor...) {
		if !slices.Contains(s.Resources, name) || strings.Contains(name, ",") {
			t.Errorf("%q of %q", name, s.Resources)
		}
	}
	if len(s.Resources) != len(names) || !strings.Contains(s.Text, "4 resources have another name here") {
		t.Error(s.Text)
	}
	for line := range strings.Lines(s.Text) {
		if key, _, _ := strings.Cut(line, ":"); !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "  - {id: ") &&
			!slices.Contains([]string{"resources", "asks-for", "priorities", "latency", "cs", "think", "duration", "participants"}, key) {
			t.Errorf("%q", line)
		}
	}
}

// Times that cannot be true change nothing, and lines that are no events are counted.
func TestAbsurdEventsAreLeftOut(t *testing.T) {
	all := lived(1, time.Hour, person{name: "a", cs: constant(2), think: constant(5), wait: 0.25})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range all {
		if e := &all[i].e; r.IntN(20) == 0 {
			switch e.Event {
			case qosmutex.EventReleased:
				e.Held = []float64{-1, 1e300, 86400}[r.IntN(3)]
			case qosmutex.EventGranted:
				e.Waited = []float64{-1e-9, 1e300, 86400}[r.IntN(3)]
			default:
				e.At = e.At.Add([]time.Duration{-time.Hour, 1000 * time.Hour}[r.IntN(2)])
			}
		}
	}
	some := messages(t, all)
	for i := range some {
		switch i % 50 {
		case 0:
			some[i].Text += "{\n[]\n\"\x00\"\n"
		case 1:
			some[i].Text += `{"event":"released","topic":"crane"}` + "\n" + `{"event":"requested","topic":"belt"}`
		case 2:
			some[i].Levels = append([]string{}, some[i].Levels...)
			some = append(some, recording.Message{MS: -1 << 62, Levels: []string{"lock"}}, recording.Message{Levels: []string{"presence", "a"}, Text: "{}"})
		}
	}
	s := described(t, some)
	if !strings.Contains(s.Text, "latency: 125ms\ncs: 2s\nthink: 5s\n") || !strings.Contains(s.Text, "cannot be true") || !strings.Contains(s.Text, "events could not be read") {
		t.Error(s.Text)
	}
}

// What is kept does not grow with the events, also of requests that never end.
func TestMemoryIsBounded(t *testing.T) {
	w := New("crane")
	text := func(i int) string {
		return fmt.Sprintf(`{"event":"requested","topic":"crane","resource":"r%d","participant":"p%d","request":"p%d/%d","priority":%d,"at":"2026-11-20T06:00:00Z"}`,
			i, i%200, i%200, i/200+1, i)
	}
	for i := range 300_000 {
		m := recording.Message{MS: int64(i), Levels: []string{"lock", "crane", "events"}, Text: text(i)}
		if err := w.Add(&m); err != nil {
			t.Fatal(err)
		}
		m = recording.Message{Levels: []string{"lock", fmt.Sprint(i), "events"}, Text: "{}"}
		if err := w.Add(&m); err != nil {
			t.Fatal(err)
		}
	}
	if w.out > maxOut || len(w.names) > maxResources || len(w.locks) > maxLocks || len(w.askers) != 200 || len(w.members) != 200 {
		t.Error(w.out, len(w.names), len(w.locks), len(w.askers))
	}
	for _, a := range w.askers {
		if len(a.out) > maxOutOfOne || len(a.priorities) > maxPriorities || len(a.asks) > maxAsked {
			t.Error(len(a.out), len(a.priorities), len(a.asks))
		}
	}
}

// The settings that the root published are those of the scenario; what nobody declared, or
// what cannot be, is not.
func TestSettings(t *testing.T) {
	people := []person{
		{name: "a", resource: "*", cs: constant(2), think: exponential(30)},
		{name: "b", resource: "*", cs: constant(2), think: exponential(30)},
		{name: "c", resource: "fast", cs: constant(2), think: exponential(30)},
	}
	some := messages(t, lived(1, time.Hour, people...))
	with := func(view ...string) *scenario {
		all := slices.Clone(some)
		for _, v := range view {
			all = slices.Insert(all, 0, viewOf(v))
		}
		return described(t, all)
	}
	s := with(`"models":"level-forward-forward-forward","ttl":3,"resources":["slow","fast"],"resources_by":"a"`)
	if s.Models != "level-forward-forward-forward" || s.TTL != "3s" || !slices.Equal(s.Resources, []string{"fast", "slow"}) ||
		!slices.Equal(s.AsksFor, []string{"*"}) || !slices.Equal(s.Participants[2].AsksFor, []string{"fast"}) {
		t.Error(s.Text)
	}
	s = with(`"models":"fair-forward-use-use","ttl":1e300,"resources":["slow"]`, `"models":"level-forward-forward-forward","ttl":3`, `"models":"x: y"`)
	if s.Models != "fair-forward-use-use" || s.TTL != "" || s.Resources != nil || !strings.Contains(s.Text, "were changed") {
		t.Error(s.Text)
	}
}

// A participant that asks with several priorities has a list of them, as often as it asked.
func TestPrioritiesThatVary(t *testing.T) {
	all := lived(1, 4*time.Hour, person{name: "agv", cs: constant(2), think: exponential(30), priority: 1}, person{name: "b", cs: constant(2), think: exponential(30), priority: 1})
	n := 0
	for i := range all {
		if e := &all[i].e; e.Participant == "agv" && e.Event == qosmutex.EventRequested {
			if n++; n%5 == 0 {
				e.Priority = 0
			}
		}
	}
	s := described(t, messages(t, all))
	if got := s.Participants[0].Draws; !slices.Equal(got, []int64{0, 0, 1, 1, 1, 1, 1, 1, 1, 1}) || s.Participants[0].Priority != nil || s.Participants[1].Draws != nil {
		t.Error(s.Text)
	}
}
