package plan

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"padme/qosmutex/classic"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// The interval holds a further value in 95 of 100 cases, whatever the distribution: here one
// with a long tail.
func TestTheMiddleHolds95Percent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rounds = 4000
	inside := 0
	for range rounds {
		var all []float64
		for range VerifyRuns {
			all = append(all, r.ExpFloat64()*r.ExpFloat64())
		}
		slices.Sort(all)
		low, median, high, enough := middle(all)
		if !enough || low > median || median > high {
			t.Fatal(low, median, high, enough)
		}
		if x := r.ExpFloat64() * r.ExpFloat64(); x >= low && x <= high {
			inside++
		}
	}
	if share := float64(inside) / rounds; share < 0.94 || share > 0.96 { // three deviations
		t.Errorf("%.3f of the values are inside", share)
	}
	var places []float64
	for i := range VerifyRuns {
		places = append(places, float64(i+1))
	}
	if low, median, high, _ := middle(places); low != 10 || median != 200 || high != 390 {
		t.Errorf("the %.0fth, %.0fth and %.0fth of %d", low, median, high, VerifyRuns)
	}
	if _, _, _, enough := middle(make([]float64, 38)); enough {
		t.Error("38 values have no middle 95 %")
	}
}

// A further simulated run fits, and one under twice the load does not.
func TestVerificationOfSimulatedRuns(t *testing.T) {
	w := with(busy, func(w *world) { w.priorities = classes })
	p := &Problem{Setup: w.setup, Runs: 3}
	c := &Contender{Algorithm: padme.Algorithm, Fanout: 2}
	var seeds []uint64
	for i := range uint64(220) {
		seeds = append(seeds, i)
	}
	all, err := Predict(context.Background(), p, c, seeds)
	if err != nil {
		t.Fatal(err)
	}
	outside, misfits := 0, 0
	for i, f := range all[:20] {
		v := Verify(all[20:], f, f)
		outside += len(v.Rows) - v.Inside
		if !v.Fits {
			misfits++
		}
		if len(v.Rows) != 5 || v.Rows[0].Figure != "wait.p50[0]" || v.Rows[3].Figure != "wait.p99[1]" || *v.Rows[i%5].Same != v.Rows[i%5].Measured {
			t.Fatalf("%+v", v)
		}
	}
	if outside > 15 || misfits > 4 {
		t.Errorf("%d of 100 figures are outside, %d of 20 runs do not fit", outside, misfits)
	}
	slow := Figures{}
	for name, x := range all[0] {
		slow[name] = 2 * x
	}
	one := maps.Clone(all[0])
	one["wait.p50[1]"] *= 2
	if v := Verify(all, nil, one); v.Fits || v.Inside < 3 {
		t.Errorf("one figure is far out of all others: %+v", v)
	}
	if v := Verify(all, nil, slow); v.Fits || v.Inside > 1 || v.Rows[0].Same != nil {
		t.Errorf("%+v", v)
	}
}

func TestPredictTellsWhatIsWrong(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Problem{Setup: busy.setup}
	if _, err := Predict(ctx, p, &Contender{Algorithm: padme.Algorithm, Fanout: 2, TTL: 1}, []uint64{1}); err == nil {
		t.Error("a TTL of a nanosecond is simulated")
	}
	cancel()
	if all, err := Predict(ctx, p, &Contender{Algorithm: classic.Central}, []uint64{1, 2}); err == nil {
		t.Errorf("an interrupted prediction has %d runs", len(all))
	}
}

// A real run that did what a simulated one did has its figures.
func TestObservedFiguresAreThoseOfASimulation(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		w := with(busy, func(w *world) { w.priorities, w.deadlines = []int64{0, 1, 2}, []protocol.Duration{300 * ms, 900 * ms} })
		setup, err := w.setup(Contender{Algorithm: classic.Central}, 3)
		if err != nil {
			t.Fatal(err)
		}
		sc := setup.Scenario
		sc.Workload.GiveUp = giveUp
		var all []Outcome
		last := map[string]int{}
		sc.Trace = func(r *sim.Record) {
			switch at := r.At - sc.Start; r.Event {
			case sim.Requested:
				all = append(all, Outcome{Priority: r.Priority, Asked: at, End: Waits})
				last[r.Node] = len(all) - 1
			case sim.Entered:
				all[last[r.Node]].End, all[last[r.Node]].At = Entered, at
			case sim.Withdrawn:
				all[last[r.Node]].End, all[last[r.Node]].At = Missed, at
			}
		}
		for i := range sc.Participants { // deadlines are not in the trace
			sc.Participants[i].Workload = &sim.Workload{
				Resources: sc.Workload.Resources, Hold: w.hold, Think: w.think, Deadlines: []protocol.Duration{500 * ms}, GiveUp: giveUp,
			}
		}
		s, err := sim.New(setup.Algorithm, sc)
		if err != nil {
			t.Fatal(err)
		}
		result, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			all[i].Within = 500 * ms
		}
		report := result.Report()
		want, got := figuresOf(&report), Observed(all, sc.Duration)
		if len(got) != 3+4*4 || got["missed"] == 0 {
			t.Fatalf("giving up %v: %v", giveUp, got)
		}
		for name, x := range got {
			if x != want[name] {
				t.Errorf("giving up %v: %s is %v, simulated %v", giveUp, name, x, want[name])
			}
		}
	}
}

// What happens after the end counts as waiting, and refusals have no waiting time.
func TestObservedCensors(t *testing.T) {
	f := Observed([]Outcome{
		{Asked: 0, End: Entered, At: 2 * protocol.Second},
		{Asked: 6 * protocol.Second, End: Entered, At: 11 * protocol.Second},
		{Asked: 7 * protocol.Second, End: Waits},
		{Asked: 8 * protocol.Second, End: Refused, Within: 1, At: 8 * protocol.Second},
		{Asked: 12 * protocol.Second, End: Entered, At: 12 * protocol.Second},
	}, 10*protocol.Second)
	want := Figures{"entries": 1, "refused": 1, "missed": 0, "wait.p50": 3, "wait.max": 4}
	for name, x := range want {
		if f[name] != x {
			t.Errorf("%s is %v, want %v", name, f[name], x)
		}
	}
	if none := Observed(nil, protocol.Second); len(none) != 3 || !slices.Equal(verified(nil, none), nil) {
		t.Errorf("%v", none)
	}
}
