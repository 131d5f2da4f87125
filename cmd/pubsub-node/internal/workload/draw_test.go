package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"padme/cmd/internal/recording"
	"padme/qosmutex"
)

// began is when the recordings of these tests begin.
var began = time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)

// person asks for a lock for as long as a recording lasts.
type person struct {
	name, via, resource string
	priority            int64
	cs, think           func(*rand.Rand) float64
	wait                float64 // of a request; 0: none
	every               bool    // think is from one request to the next
	off                 time.Duration
}

// happening is an event and when it was recorded.
type happening struct {
	at time.Duration
	e  qosmutex.Event
}

// lived draws what people do in a time.
func lived(seed uint64, span time.Duration, people ...person) (all []happening) {
	for i := range people {
		p, r := &people[i], rand.New(rand.NewPCG(seed, uint64(i)))
		last := 0
		for t := seconds(p.think(r)); t < span; {
			wait, held := seconds(p.wait), seconds(p.cs(r))
			last++
			e := qosmutex.Event{
				Topic: "crane", Resource: p.resource, Participant: p.name, Via: p.via, Priority: p.priority,
				Request: fmt.Sprintf("%s/%d", p.via+p.name, last), // given again in messages
			}
			add := func(at time.Duration, name string, waited, held float64) {
				e.Event, e.At, e.Waited, e.Held, e.How = name, began.Add(at+p.off), waited, held, ""
				all = append(all, happening{at, e})
			}
			add(t, qosmutex.EventRequested, 0, 0)
			add(t+wait, qosmutex.EventGranted, wait.Seconds(), 0)
			add(t+wait+held, qosmutex.EventReleased, 0, held.Seconds())
			if !p.every {
				t += wait + held
			}
			t += seconds(p.think(r))
		}
	}
	slices.SortStableFunc(all, func(a, b happening) int { return int(a.at - b.at) })
	return number(all)
}

// number gives requests the numbers of their members, in the order in which they came.
func number(all []happening) []happening {
	last, names := map[string]int{}, map[string]string{}
	for i := range all {
		e := &all[i].e
		of := e.Via
		if of == "" {
			of = e.Participant
		}
		if e.Event == qosmutex.EventRequested {
			last[of]++
			names[e.Request] = fmt.Sprintf("%s/%d", of, 1795219200000000+int64(last[of]))
		}
		e.Request = names[e.Request]
	}
	return all
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

func messages(t testing.TB, all []happening) (some []recording.Message) {
	t.Helper()
	for i := range all {
		text, err := json.Marshal(&all[i].e)
		if err != nil {
			t.Fatal(err)
		}
		some = append(some, recording.Message{MS: all[i].at.Milliseconds(), Levels: []string{"lock", all[i].e.Topic, "events"}, Text: string(text) + "\n"})
	}
	return some
}

// scenario is what is printed, read again.
type scenario struct {
	Text         string
	Priorities   []int64
	Draws        []int64 `yaml:"request-priorities"`
	Models, TTL  string
	Latency, CS  string
	Think, Every string
	Duration     time.Duration
	Resources    []string
	AsksFor      []string `yaml:"asks-for"`
	Participants []struct {
		ID, CS, Think, Every string
		Priority             *int64
		Draws                []int64  `yaml:"request-priorities"`
		AsksFor              []string `yaml:"asks-for"`
	}
}

func described(t testing.TB, some []recording.Message) *scenario {
	t.Helper()
	w := New("crane")
	for i := range some {
		if err := w.Add(&some[i]); err != nil {
			t.Fatal(err)
		}
	}
	text, err := w.Describe(&recording.Summary{Header: recording.Header{Started: began}})
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{Text: string(text)}
	if err := yaml.Unmarshal(text, s); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return s
}

func constant(x float64) func(*rand.Rand) float64 { return func(*rand.Rand) float64 { return x } }

func exponential(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return r.ExpFloat64() * mean }
}

func normal(mean, deviation float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return max(0, mean+deviation*r.NormFloat64()) }
}

func logNormal(mean, deviation float64) func(*rand.Rand) float64 {
	variance := math.Log1p(square(deviation / mean))
	return func(r *rand.Rand) float64 {
		return math.Exp(math.Log(mean) - variance/2 + math.Sqrt(variance)*r.NormFloat64())
	}
}
