package sim

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// A is inside for 10 s. B, asked at 1 s, sleeps when the grant comes; C waits behind
// it from 20 s on. Neither is ever inside in 50 s. S never asks.
func TestStarvationAndRateByHand(t *testing.T) {
	sc := star(3)
	sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 50*second
	sc.Arrivals = []Arrival{wish(0, "A", 0, 10), wish(1, "B", 0, 20), wish(20, "C", 0, 5), wish(25, "C", 0, 5)}
	s := mustNew(t, "", sc)
	s.At(10*second, func() { s.Pause("B") })
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Starvation; v.Waiting != 3 || v.Longest != 49*second || !slices.Equal(v.Nodes, []string{"B", "C"}) {
		t.Errorf("got %+v", v)
	}
	if r.Inside != 10*second || r.Rate() != 0.2 {
		t.Errorf("inside %s", seconds(r.Inside))
	}
	if want := (49 + 30 + 25) / 50.; math.Abs(r.AverageWaiting-want) > 1e-9 {
		t.Errorf("%v wait on average, want %v", r.AverageWaiting, want)
	}
}

// The second of two holds of 1 s is paused for 3 s more.
func TestAPausedHoldOverstays(t *testing.T) {
	sc := star(1)
	sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 50*second
	sc.Arrivals = []Arrival{wish(0, "A", 0, 1), wish(2, "A", 0, 1)}
	s := mustNew(t, "", sc)
	s.At(7500*protocol.Millisecond, func() { s.Pause("A") })
	s.At(11*second, func() { s.Resume("A") })
	r, err := s.Run()
	if err != nil || r.Overstayed != 1 || r.Inside != 5*second {
		t.Errorf("%d overstayed, %s inside, %v", r.Overstayed, seconds(r.Inside), err)
	}
}

// Entries 3, 1 and 0 of three who ask: (4·4)/(3·10).
func TestFairnessByHand(t *testing.T) {
	r := play(t, nil,
		wish(0, "A", 0, 1), wish(2, "A", 0, 1), wish(4, "A", 0, 1), wish(6, "B", 0, 99), wish(7, "C", 0, 1))
	if math.Abs(r.Fairness-16./30) > 1e-9 {
		t.Errorf("got %v", r.Fairness)
	}
	if none := play(t, nil); none.Fairness != 0 || none.PerEntry() != 0 || none.Rate() != 0 {
		t.Errorf("nothing happened: %+v", none)
	}
}

// Two waiters for 9 and 8 s, then one for 10 s, of 100 s.
func TestAverageWaitingByHand(t *testing.T) {
	r := play(t, nil, wish(0, "A", 0, 10), wish(1, "B", 0, 10), wish(2, "C", 0, 1))
	if want := (9 + 18) / 100.; math.Abs(r.AverageWaiting-want) > 1e-9 {
		t.Errorf("got %v, want %v", r.AverageWaiting, want)
	}
	if r.Rate() != 0.21 {
		t.Errorf("rate %v", r.Rate())
	}
}

// A, inside from 2 to 8 s, and B, who waits from 3 to 8 s, count from the start of
// the measured time at 5 s only; C, from 30 s on, until its end at 35 s only.
func TestOnlyTheMeasuredTimeCounts(t *testing.T) {
	sc := star(3)
	sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 30*second
	s := mustNew(t, "", sc)
	s.At(2*second, func() { s.Request("A", Request{Resource: "crane", Hold: 6 * second}) })
	s.At(3*second, func() { s.Request("B", Request{Resource: "crane"}) })
	s.At(30*second, func() { s.Request("C", Request{Resource: "crane", Hold: 20 * second}) })
	s.At(31*second, func() { s.Request("A", Request{Resource: "crane"}) })
	if err := s.RunUntil(60 * second); err != nil {
		t.Fatal(err)
	}
	r := s.Result()
	if r.Inside != 3*second+5*second || math.Abs(r.AverageWaiting-(3+4)/30.) > 1e-9 {
		t.Errorf("inside %s, %v wait on average", seconds(r.Inside), r.AverageWaiting)
	}
	if r.Entries != 2 || r.Measured != 30*second || r.Starvation.Waiting != 0 {
		t.Errorf("%d entries in %s", r.Entries, seconds(r.Measured))
	}
}

// An algorithm without sessions need not say until when its holds are valid.
func TestAStaticAlgorithmExcludesWithoutSessions(t *testing.T) {
	for _, static := range []bool{false, true} {
		algorithm := centralServer("two inside")
		plain := algorithm.New
		algorithm.Static = static
		algorithm.New = func(c protocol.Config) (protocol.Machine, error) {
			m, err := plain(c)
			return silent{m}, err
		}
		sc := star(2)
		sc.Network, sc.Workload = Network{}, Workload{}
		sc.Arrivals = []Arrival{wish(0, "A", 0, 10), wish(2, "B", 0, 10)}
		s, err := New(algorithm, sc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(); errors.Is(err, ErrViolation) != static {
			t.Errorf("static=%v: %v", static, err)
		}
	}
}

type silent struct{ protocol.Machine }

func (m silent) Status() protocol.Status {
	s := m.Machine.Status()
	s.ValidUntil = 0
	return s
}

// A request, a reply and a release of a second each, and one more request that
// waits: what the report says of it, name by name.
func TestReport(t *testing.T) {
	r := play(t, func(sc *Scenario) { sc.Network.Latency, sc.Duration = Constant(second), 20*second },
		wish(0, "A", 2, 4), wish(1, "B", -1, 2))
	got, err := json.MarshalIndent(r.Report(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "entries": {
  "total": 2,
  "byNode": [
   0,
   1,
   1,
   0
  ],
  "byPriority": {
   "-1": 1,
   "2": 1
  }
 },
 "messages": {
  "total": 6,
  "byKind": {
   "Release": 2,
   "Reply": 2,
   "Request": 2
  },
  "perEntry": 3,
  "upkeep": 0
 },
 "syncDelay": {
  "mean": 2,
  "p50": 2,
  "p99": 2,
  "max": 2
 },
 "wait": {
  "mean": 4.5,
  "p50": 2,
  "p99": 7,
  "max": 7,
  "unserved": 0,
  "byPriority": {
   "-1": {
    "mean": 7,
    "p50": 7,
    "p99": 7,
    "max": 7,
    "unserved": 0
   },
   "2": {
    "mean": 2,
    "p50": 2,
    "p99": 2,
    "max": 2,
    "unserved": 0
   }
  }
 },
 "inversions": {
  "known": 0,
  "pending": 1,
  "victims": 1,
  "overtakers": 1
 },
 "fairness": 1,
 "stopped": 0,
 "starvation": {
  "waiting": 0,
  "longest": 0,
  "nodes": 0
 },
 "deadlines": {
  "admitted": 0,
  "refused": 0,
  "missed": 0
 },
 "rate": 0.3,
 "waiting": 0.45,
 "overlaps": 0,
 "measured": 20,
 "events": 15
}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}

// To look at the result changes nothing, and costs nothing but time.
func TestAResultCanBeAskedForAgain(t *testing.T) {
	sc := star(3)
	sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 50*second
	late := wish(1, "B", 0, 1)
	late.Within = second
	sc.Arrivals = []Arrival{wish(0, "A", 0, 99), late}
	s := mustNew(t, "", sc)
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	once := s.Result().String()
	if again := s.Result().String(); again != once || !strings.Contains(once, "1 admitted, 0 refused, 1 missed") || !strings.Contains(once, "at the end 1 wait, the longest for 49.000s; never served: B\n") {
		t.Errorf("first\n%s\nthen\n%s", once, again)
	}
}

func TestUpkeepIsCountedApart(t *testing.T) {
	var r Result
	for _, k := range []protocol.Kind{protocol.KindRequest, protocol.KindBeat, protocol.KindBeacon, protocol.KindToken} {
		r.sent(k)
	}
	m := r.Report().Messages
	if m.Total != 2 || m.Upkeep != 2 || len(m.ByKind) != 2 || m.ByKind["Request"] != 1 || m.ByKind["Token"] != 1 {
		t.Errorf("got %+v", m)
	}
}

func TestTheTableForPeopleNamesWhatIsUnusual(t *testing.T) {
	r := play(t, nil, wish(0, "A", 5, 10), wish(1, "B", 9, 10), wish(2, "C", 1, 99), wish(3, "A", 4, 1),
		Arrival{4 * second, "S", Request{Resource: "crane", Within: second}})
	for _, line := range []string{
		"3 entries in 100.000s, 9 messages (3.000 per entry), synchronization delay mean 0.000s",
		"inversions: 4 pending (4 known) by 2 entries, 1 victims\n",
		"deadlines: 1 admitted, 0 refused, 1 missed\n",
		"priority 1: 1 entries, 1 victims, waited mean 18.000s",
		"at the end 2 wait, the longest for 97.000s; never served: S\n",
	} {
		if !strings.Contains(r.String(), line) {
			t.Errorf("no %q in\n%v", line, r)
		}
	}
	if got := orNobody(slices.Repeat([]string{"x"}, 12)); got != "x, x, x, x, x, x, x, x, x, x and 2 more" {
		t.Errorf("got %q", got)
	}
}

// Who still waits at the end has waited all the same; and a run in which nobody has
// entered for long is not a fair one, however equal the few entries before were.
func TestWhoStillWaitsCounts(t *testing.T) {
	sc := star(2)
	sc.Network, sc.Workload, sc.Duration = Network{}, Workload{}, 100*second
	sc.Arrivals = []Arrival{wish(0, "A", 0, 1), wish(1, "B", 0, 1), wish(10, "A", 0, 5), wish(40, "B", 0, 5)}
	s := mustNew(t, "", sc)
	s.At(sc.Start+5*second, func() { s.Crash("S") })
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Waits(); w.Count() != 4 || w.Quantile(1) != 90*second || r.Waiting().Quantile(1) != 0 {
		t.Errorf("waited %v, those served %v", w, r.Waiting())
	}
	if u := r.ByNode[1].Unserved; u != (Unserved{1, 90 * second, 90 * second}) {
		t.Errorf("of A %+v", u)
	}
	p := r.Report()
	if p.Wait.Max != 90 || p.Wait.P99 != 90 || p.Wait.Unserved != 2 || p.Wait.Mean != 37.5 {
		t.Errorf("got %+v", p.Wait)
	}
	if r.Stopped != 90*second || p.Stopped != 90 || r.Fairness != 0 {
		t.Errorf("stopped for %s, fairness %v", seconds(r.Stopped), r.Fairness)
	}
}
