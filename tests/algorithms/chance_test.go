package algorithms_test

import (
	"math"
	"testing"

	"padme/qosmutex/classic"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

func moments(all []float64) (mean, variance float64) {
	for _, x := range all {
		mean += x / float64(len(all))
	}
	for _, x := range all {
		variance += (x - mean) * (x - mean) / float64(len(all))
	}
	return mean, variance
}

// Arrivals of a Poisson process do not know of each other, nor of how busy the lock
// is: as many in the mean as their variance over windows, gaps with the variance of
// the exponential distribution, uncorrelated with the gap before and with how many
// waited when it began.
func TestPoissonArrivalsAreIndependentOfTheService(t *testing.T) {
	const every = 100.0                                             // ms
	for _, hold := range []protocol.Duration{0, 15 * ms, 24 * ms} { // four of them: up to 96 % busy
		gaps, waited, windows := arrivals(t, hold)
		mean, variance := moments(gaps)
		n := float64(len(gaps))
		if math.Abs(mean-every) > 5*every/math.Sqrt(n) || math.Abs(variance/(every*every)-1) > 5*math.Sqrt(8/n) {
			t.Errorf("hold %d: mean %v, variance %v of %v gaps", hold, mean, variance, n)
		}
		if m, v := moments(windows); math.Abs(v/m-1) > 5*math.Sqrt(2/float64(len(windows))) {
			t.Errorf("hold %d: %v arrivals in a window, variance %v", hold, m, v)
		}
		if c := correlation(gaps[1:], gaps[:len(gaps)-1]); math.Abs(c) > 5/math.Sqrt(n) {
			t.Errorf("hold %d: gaps are correlated: %v", hold, c)
		}
		if c := correlation(gaps, waited); hold > 0 && !(math.Abs(c) <= 5/math.Sqrt(n)) {
			t.Errorf("hold %d: gaps depend on how many wait: %v", hold, c)
		}
	}
}

// arrivals are the times between requests of a participant, how many requests of
// all waited when each began, and how many requests fell into each second.
func arrivals(t *testing.T, hold protocol.Duration) (gaps, waited, windows []float64) {
	t.Helper()
	type begun struct {
		at      protocol.Time
		waiting int
	}
	last, waiting := map[string]begun{}, 0
	windows = make([]float64, 1000)
	sc := sim.Scenario{
		Participants: sim.Tree(4, 2, false), Timing: protocol.LAN(), Duration: 1000 * second, Fast: true,
		Settings: protocol.Settings{Resources: []string{resource}},
		Workload: sim.Workload{Resources: []string{resource}, Hold: sim.Constant(hold), Every: sim.Exponential(100 * ms)},
	}
	sc.Trace = func(r *sim.Record) {
		switch r.Event {
		case sim.Entered:
			waiting--
		case sim.Requested:
			waiting++
			if b, ok := last[r.Node]; ok {
				gaps = append(gaps, float64(r.At-b.at)/float64(ms))
				waited = append(waited, float64(b.waiting))
			}
			last[r.Node] = begun{r.At, waiting}
			windows[r.At/second]++
		}
	}
	s, err := sim.New(classic.CentralFIFO, sc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return gaps, waited, windows
}

func correlation(x, y []float64) float64 {
	mx, vx := moments(x)
	my, vy := moments(y)
	sum := 0.0
	for i := range x {
		sum += (x[i] - mx) * (y[i] - my) / float64(len(x))
	}
	return sum / math.Sqrt(vx*vy)
}

// No algorithm multicasts a message that the papers count: a message sent is one
// message on the wire.
func TestACountedMessageHasOneReceiver(t *testing.T) {
	for _, algorithm := range papers.Algorithms() {
		counted := 0
		a := drawAnything(algorithm, 1)
		a.scenario.Trace = func(r *sim.Record) {
			if r.Event == sim.Sent && r.Kind.Counted() {
				if counted++; r.Peer == "" {
					t.Errorf("%s: %v", algorithm.Name, r)
				}
			}
		}
		if err := a.prepare(a.algorithm); err != nil {
			t.Fatal(err)
		}
		if _, err := a.sim.Run(); err != nil || counted == 0 {
			t.Errorf("%s: %d counted, %v", algorithm.Name, counted, err)
		}
	}
}
