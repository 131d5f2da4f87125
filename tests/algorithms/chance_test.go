package algorithms_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"

	"padme/qosmutex/classic"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// talker sends a numbered message to everybody else every so often.
type talker struct {
	self  protocol.Node
	to    []string
	every protocol.Duration
	next  protocol.Time
	n     uint64
}

func (m *talker) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	if in.Kind == protocol.Tick {
		m.n++
		m.next = now + m.every
		for _, id := range m.to {
			if id != m.self.ID {
				out.Messages = append(out.Messages, protocol.Message{
					Kind: protocol.KindFailed, From: m.self, To: protocol.Node{ID: id}, ID: protocol.RequestID{Node: m.self, Clock: m.n},
				})
			}
		}
	}
	out.WakeAt = m.next
	return nil
}

func (m *talker) Status() protocol.Status { return protocol.Status{Role: protocol.Member} }

// way is from one participant to another.
type way struct{ from, to string }

// heard is what a network did with numbered messages.
type heard struct {
	latency map[way][]protocol.Duration
	number  map[way][]uint64 // in the order in which they came
	sent    int
	lost    int
	doubled int
}

// listen lets n talkers talk over a network.
func listen(t *testing.T, n int, every, duration protocol.Duration, change func(*sim.Scenario), script func(*sim.Sim)) *heard {
	t.Helper()
	h := &heard{latency: map[way][]protocol.Duration{}, number: map[way][]uint64{}}
	left := map[string]map[uint64]protocol.Time{}
	sc := sim.Scenario{Seed: 5, Participants: sim.Tree(n, 2, true), Timing: protocol.LAN(), Duration: duration, Fast: true}
	sc.Trace = func(r *sim.Record) {
		switch r.Event {
		case sim.Sent:
			h.sent++
			if left[r.Node] == nil {
				left[r.Node] = map[uint64]protocol.Time{}
			}
			left[r.Node][r.ID.Clock] = r.At
		case sim.Lost:
			h.lost++
		case sim.Duplicated:
			h.doubled++
		case sim.Delivered:
			w := way{r.Peer, r.Node}
			h.latency[w] = append(h.latency[w], r.At-left[r.Peer][r.ID.Clock])
			h.number[w] = append(h.number[w], r.ID.Clock)
		}
	}
	change(&sc)
	s, err := sim.New(protocol.Algorithm{Name: "talker", New: func(c protocol.Config) (protocol.Machine, error) {
		return &talker{self: c.Self, to: c.Members, every: every}, nil
	}}, sc)
	if err != nil {
		t.Fatal(err)
	}
	script(s)
	if _, err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return h
}

func nothingElse(*sim.Sim) {}

func (h *heard) all() (all []float64) {
	for _, w := range slices.SortedFunc(maps.Keys(h.latency), func(a, b way) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) }) {
		for _, d := range h.latency[w] {
			all = append(all, float64(d)/float64(ms))
		}
	}
	return all
}

func moments(all []float64) (mean, variance float64) {
	for _, x := range all {
		mean += x / float64(len(all))
	}
	for _, x := range all {
		variance += (x - mean) * (x - mean) / float64(len(all))
	}
	return mean, variance
}

// What is drawn has the mean and the variance that the distribution's name
// promises, within five standard errors; those of the variance from the fourth
// moment, in units of the squared variance.
func TestDistributionsAreWhatTheyAreCalled(t *testing.T) {
	half := math.Sqrt(2 / math.Pi)
	for _, c := range []struct {
		latency                  sim.Distribution
		mean, variance, kurtosis float64 // in ms
	}{
		{sim.Constant(7 * ms), 7, 0, 1},
		{sim.Uniform(2*ms, 8*ms), 5, 3, 1.8},
		{sim.Exponential(10 * ms), 10, 100, 9},
		{sim.Normal(50*ms, 5*ms), 50, 25, 3},
		{sim.Normal(0, 10*ms), 10 * half, 100 * (1 - 2/math.Pi), 3.87},
		{sim.LogNormal(10*ms, 4*ms), 10, 16, 6.3},
	} {
		all := listen(t, 3, second, 5000*second, func(sc *sim.Scenario) { sc.Network = sim.Network{Latency: c.latency, Reorder: true} }, nothingElse).all()
		mean, variance := moments(all)
		n := float64(len(all))
		if n < 29_000 || math.Abs(mean-c.mean) > 5*math.Sqrt(c.variance/n)+1e-9 {
			t.Errorf("%v: mean %v of %v", c.latency, mean, n)
		}
		if math.Abs(variance-c.variance) > 5*c.variance*math.Sqrt((c.kurtosis-1)/n)+1e-9 {
			t.Errorf("%v: variance %v, want %v", c.latency, variance, c.variance)
		}
	}
}

// Both bounds of a uniform distribution are drawn, as often as what lies between.
func TestUniformIncludesItsBounds(t *testing.T) {
	count := map[protocol.Duration]int{}
	n := 0
	for _, all := range listen(t, 3, second, 2000*second, func(sc *sim.Scenario) { sc.Network.Latency = sim.Uniform(3, 7) }, nothingElse).latency {
		for _, d := range all {
			count[d]++
			n++
		}
	}
	for d := protocol.Duration(3); d <= 7; d++ {
		want := float64(n) / 5
		if math.Abs(float64(count[d])-want) > 5*math.Sqrt(want*0.8) {
			t.Errorf("%d ns: %d times of %d", d, count[d], n)
		}
	}
	if len(count) != 5 {
		t.Errorf("drawn: %v", count)
	}
}

// Row i of a matrix is what participant i sends, column j what reaches j.
func TestMatrixIsFromRowToColumn(t *testing.T) {
	m := sim.Matrix{Each: [][]protocol.Duration{{99, 1, 2}, {10, 99, 12}, {20, 21, 99}}, Scale: 2}
	h := listen(t, 3, second, 5*second, func(sc *sim.Scenario) { sc.Network.Latency = m }, nothingElse)
	names := []string{"A", "B", "C"}
	for i, row := range m.Each {
		for j, d := range row {
			w := way{names[i], names[j]}
			if want := slices.Repeat([]protocol.Duration{2 * d}, 5); i != j && !slices.Equal(h.latency[w], want) {
				t.Errorf("%v: %v, want %d", w, h.latency[w], 2*d)
			}
		}
	}
}

// Unless Reorder is set, messages of a pair come in the order in which they were
// sent, whatever delays, doubles or stops them and when the network changes. With
// Reorder they do not.
func TestOrderIsKeptForEveryPair(t *testing.T) {
	slow := sim.Network{Latency: sim.Exponential(50 * ms), Loss: 0.1, Duplicate: 0.1}
	for _, order := range []sim.Order{sim.ApplicationFirst, sim.MessagesFirst, sim.Shuffled} {
		for name, first := range map[string]sim.Network{
			"exponential": slow, "none": {}, "constant": {Latency: sim.Constant(100 * ms)}, "matrix": {Latency: sim.Matrix{Each: [][]protocol.Duration{{0, 9 * ms, 0}, {ms, 0, ms}, {5, 5, 5}}}},
			"reorder": {Latency: slow.Latency, Reorder: true},
		} {
			h := listen(t, 3, 3*ms, 12*second, func(sc *sim.Scenario) { sc.Network, sc.Order = first, order }, func(s *sim.Sim) {
				s.At(2*second, func() { s.Pause("A") })
				s.At(4*second, func() { s.Resume("A") })
				if first.Reorder {
					return
				}
				for i, n := range []sim.Network{slow, first, {}, slow, {Latency: sim.Constant(40 * ms)}, {Latency: sim.Uniform(0, 3*ms)}} {
					s.At(protocol.Time(5+i)*second, func() { s.SetNetwork(n) })
				}
			})
			for w, numbers := range h.number {
				if slices.IsSorted(numbers) == first.Reorder || len(numbers) < 2000 {
					t.Errorf("order %d, %s: %v: sorted: %v, %d came", order, name, w, !first.Reorder, len(numbers))
				}
			}
		}
	}
}

func TestLossAndDuplicationAreAsOftenAsTheySay(t *testing.T) {
	h := listen(t, 4, 10*ms, 60*second, func(sc *sim.Scenario) { sc.Network = sim.Network{Loss: 0.2, Duplicate: 0.3} }, nothingElse)
	n := float64(h.sent)
	if math.Abs(float64(h.lost)-0.2*n) > 5*math.Sqrt(0.16*n) || math.Abs(float64(h.doubled)-0.24*n) > 5*math.Sqrt(0.24*0.76*n) {
		t.Errorf("%d lost and %d doubled of %d", h.lost, h.doubled, h.sent)
	}
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
