package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/cmd/internal/recording"
	"padme/qosmutex"
)

// Shapes and means come back, as exactly as so many samples tell.
func TestDistributionsComeBack(t *testing.T) {
	for _, shape := range []struct {
		name string
		cv   float64
		draw func(mean float64) func(*rand.Rand) float64
	}{
		{"", 0, constant},
		{"normal", 0.2, func(m float64) func(*rand.Rand) float64 { return normal(m, 0.2*m) }},
		{"lognormal", 0.65, func(m float64) func(*rand.Rand) float64 { return logNormal(m, 0.65*m) }},
		{"exponential", 1, exponential},
		{"lognormal", 1.8, func(m float64) func(*rand.Rand) float64 { return logNormal(m, 1.8*m) }},
	} {
		for seed := range uint64(5) {
			const cs, think = 2.0, 5.0
			all := lived(seed, time.Hour,
				person{name: "a", cs: shape.draw(cs), think: shape.draw(think), wait: 0.01, off: -time.Hour},
				person{name: "b", cs: constant(3), think: shape.draw(think), wait: 0.01, every: true})
			s := described(t, messages(t, all))
			check := func(what, text string, want float64, n int) {
				t.Helper()
				name, rest, found := strings.Cut(text, ":")
				if !found {
					name, rest = "", text
				}
				mean, _, _ := strings.Cut(rest, ",")
				d, err := time.ParseDuration(mean)
				if off := math.Abs(d.Seconds() - want); err != nil || name != shape.name || off > 4*shape.cv*want/math.Sqrt(float64(n))+want/100 {
					t.Errorf("seed %d: %s is %q, want %s with a mean of %v", seed, what, text, shape.name, want)
				}
			}
			if p := s.Participants[0]; p.ID != "a" || s.Participants[1].ID != "b" {
				t.Fatal(s.Text)
			} else {
				check("cs", firstOf(p.CS, s.CS), cs, 400)
				check("think", firstOf(p.Think, s.Think), think, 400)
			}
			if shape.cv > 0.5 { // requests of the others seldom overlap
				check("every", firstOf(s.Participants[1].Every, s.Every), think, 600)
			}
		}
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Askers that are alike are described once, and another one has its own line.
func TestAlikeAskersShareTheDefaults(t *testing.T) {
	people := []person{{name: "ship", priority: 0, cs: normal(20, 5), think: exponential(600)}}
	for i := range 6 {
		people = append(people, person{name: fmt.Sprint("stack-", i), priority: 1, cs: normal(20, 5), think: exponential(30)})
	}
	s := described(t, messages(t, lived(7, 4*time.Hour, people...)))
	for i, p := range s.Participants {
		if i == 0 != (p.Think != "") || i == 0 != (p.Priority != nil) || p.CS != "" {
			t.Fatal(s.Text)
		}
	}
	if !strings.HasPrefix(s.CS, "normal:") || !strings.HasPrefix(s.Think, "exponential:") || !slices.Equal(s.Priorities, []int64{1}) || s.Duration < 4*time.Hour-10*time.Minute {
		t.Error(s.Text)
	}
	if strings.Contains(s.Text, "unsure") != strings.Contains(s.Text, "TTL") {
		t.Error(s.Text)
	}
}

// What an asker asks for more often is in the list more often, unless that is chance.
func TestSharesOfResources(t *testing.T) {
	// all of them need no saying
	for of, want := range map[int][]string{5: {"a", "a", "b", "b", "b", "b", "b", "b", "b", "b"}, 2: nil} {
		all := lived(5, 4*time.Hour, person{name: "p", resource: "b", cs: normal(20, 5), think: exponential(30)})
		for i := range all {
			if number, _ := numberOf(all[i].e.Request, "p"); number%uint64(of) == 0 {
				all[i].e.Resource = "a"
			}
		}
		if s := described(t, messages(t, all)); !slices.Equal(s.AsksFor, want) {
			t.Errorf("one of %d: %q", of, s.AsksFor)
		}
	}
}

// What began before a recording or goes on after it, and what is missing in it, changes no
// figure.
func TestWhatIsCutOffDoesNotDistort(t *testing.T) {
	a := person{name: "a", cs: constant(2), think: constant(5), wait: 0.25}
	some := messages(t, lived(1, time.Hour, a))
	want := "cs: 2s\nthink: 5s\n"
	s := described(t, some[2:len(some)-1])
	if !strings.Contains(s.Text, want) || !strings.Contains(s.Text, "1 request began before") || !strings.Contains(s.Text, "1 request had not ended") {
		t.Error(s.Text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	holes := slices.DeleteFunc(slices.Clone(some), func(recording.Message) bool { return r.IntN(10) == 0 })
	if s := described(t, holes); !strings.Contains(s.Text, want) || !strings.Contains(s.Text, "missing by their numbers") || strings.Contains(s.Text, "every:") {
		t.Error(s.Text)
	}
	missed := slices.Insert(slices.Clone(some[:400]), 301, recording.Message{MS: some[300].MS, Missed: 7})
	missed = slices.Delete(missed, 302, 309)
	if s := described(t, missed); !strings.Contains(s.Text, want) || !strings.Contains(s.Text, "7 messages of the recording") {
		t.Error(s.Text)
	}
	twice := slices.Clone(some)
	for i := range some { // at least once
		twice = slices.Insert(twice, 2*i, some[i])
	}
	if s, one := described(t, twice), described(t, some); !strings.Contains(s.Text, want) || !strings.Contains(s.Text, requestsOf(one)) {
		t.Error(s.Text)
	}
}

// requestsOf is how many requests a scenario is made of.
func requestsOf(s *scenario) string {
	_, rest, _ := strings.Cut(s.Text, "UTC on: ")
	n, _, _ := strings.Cut(rest, " ")
	return n + " "
}

// A participant that dies while it holds, and is restarted, overlaps with nothing.
func TestDeadHolderIsForgotten(t *testing.T) {
	all := lived(1, time.Hour, person{name: "a", cs: constant(2), think: constant(5)})
	died := 0
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].e.Event == qosmutex.EventReleased && i%5 == 0 {
			all = slices.Delete(all, i, i+1)
			died++
		}
	}
	lives := 0
	for i := range all {
		e := &all[i].e
		if e.Event == qosmutex.EventRequested && i > 0 && all[i-1].e.Event != qosmutex.EventReleased {
			lives++
		}
		var number int
		if _, err := fmt.Sscanf(e.Request, "a/%d", &number); err != nil {
			t.Fatal(err)
		}
		e.Request = fmt.Sprintf("a/%d", number+lives*1_000_000)
	}
	s := described(t, messages(t, all))
	if died < 20 || !strings.Contains(s.Text, "cs: 2s\nthink: 5s\n") || !strings.Contains(s.Text, fmt.Sprintf("%d requests had not ended", died)) {
		t.Error(died, s.Text)
	}
}

// The same client of two gateways is two askers, with the numbers of their gateways.
func TestClientsOfGateways(t *testing.T) {
	s := described(t, messages(t, lived(3, time.Hour,
		person{name: "esp", via: "g", cs: constant(1), think: exponential(10)},
		person{name: "esp", via: "h", cs: constant(1), think: exponential(10)},
		person{name: "tool", via: "g", cs: constant(1), think: exponential(10)})))
	if len(s.Participants) != 3 || s.Participants[0].ID != "esp via g" || s.Participants[1].ID != "esp via h" || s.Participants[2].ID != "tool" || strings.Contains(s.Text, "missing by") {
		t.Error(s.Text)
	}
}

// Only requests that met nobody show how long a message takes.
func TestLatency(t *testing.T) {
	calm := person{name: "a", cs: constant(1), think: constant(10), wait: 0.5}
	all := lived(1, time.Hour, calm)
	if s := described(t, messages(t, all)); s.Latency != "250ms" || !strings.Contains(s.Text, "half the wait of ") {
		t.Error(s.Text)
	}
	quick := calm // the order of events so near is not sure
	quick.think = constant(0.05)
	if s := described(t, messages(t, lived(1, time.Hour, quick))); s.Latency != "250ms" || !strings.Contains(s.Text, "upper bound") {
		t.Error(s.Text)
	}
	busy := slices.Clone(all) // a request of another one is there whenever it asks
	for i := range all {
		if e := all[i].e; e.Event == qosmutex.EventRequested {
			e.Participant, e.Request = "b", fmt.Sprintf("b/%d", i/3+1)
			busy = append(busy, happening{all[i].at - 1, e})
		}
	}
	slices.SortStableFunc(busy, func(a, b happening) int { return int(a.at - b.at) })
	if s := described(t, messages(t, busy)); s.Latency != "250ms" || !strings.Contains(s.Text, "upper bound") {
		t.Error(s.Text)
	}
	for i := range all {
		all[i].e.How = "root"
	}
	if s := described(t, messages(t, all)); s.Latency != "2ms" || !strings.Contains(s.Text, "a guess") {
		t.Error(s.Text)
	}
}

func TestErrors(t *testing.T) {
	add := func(lock string, happened []happening) error {
		w := New(lock)
		for _, m := range messages(t, happened) {
			if err := w.Add(&m); err != nil {
				return err
			}
		}
		_, err := w.Describe(&recording.Summary{})
		return err
	}
	all := lived(1, time.Minute, person{name: "a", cs: constant(2), think: constant(5)})
	var which *LockError
	if err := add("crnae", all); !errors.As(err, &which) || which.Lock != "crnae" || !slices.Equal(which.Locks, []string{"crane"}) {
		t.Error(err)
	}
	if err := add("", all); err != nil {
		t.Error(err)
	}
	other := all[0]
	other.e.Topic = "belt"
	if err := add("", append(slices.Clone(all), other)); !errors.As(err, &which) || which.Lock != "" || len(which.Locks) != 2 {
		t.Error(err)
	}
	other.e.Topic = "gateway" // of the gateways themselves
	if err := add("", append([]happening{other}, all...)); err != nil {
		t.Error(err)
	}
	if err := add("crane", all[:3]); !errors.Is(err, ErrTooFew) {
		t.Error(err)
	}
	if err := add("crane", nil); !errors.As(err, &which) || len(which.Locks) != 0 {
		t.Error(err)
	}
	var many []happening
	for i := range MaxAskers + 1 {
		e := all[0].e
		e.Participant = fmt.Sprint("a-", i)
		e.Request = e.Participant + "/1"
		many = append(many, happening{all[0].at, e})
	}
	if err := add("crane", many); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	if err := add("crane", append(many[:MaxAskers:MaxAskers], all...)); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
}
