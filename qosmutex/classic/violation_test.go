package classic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

func TestViolationBoundByHand(t *testing.T) {
	for _, c := range []struct {
		n, m int
		p    float64
		want float64
	}{
		{1, 1, 0.25, 0.25},           // k = 1
		{3, 2, 0.1, 0.19},            // k = 1, 2: 2·0.1·0.9 + 0.01
		{3, 3, 0.1, 0.001},           // k = 3
		{4, 3, 0.5, 0.5},             // k = 2, 3: (3 + 1)/8
		{5, 3, 0.5, 0.875},           // k = 1, 2, 3: 1 − 1/8
		{5, 4, 0.1, 0.0036 + 0.0001}, // k = 3, 4: 4·0.001·0.9 + 0.0001
		{32, 17, 1e-9, 136e-18},      // C(17,2) p², the rest is a part in 10⁸
		{3, 2, 0, 0},
		{3, 2, 1, 1},
	} {
		if got := ViolationBound(c.n, c.m, c.p); math.Abs(got-c.want) > 1e-7*c.want {
			t.Errorf("n=%d m=%d p=%v: %v, want %v", c.n, c.m, c.p, got, c.want)
		}
	}
	for _, c := range []struct {
		n, m int
		p    float64
	}{{4, 2, 0.1}, {3, 4, 0.1}, {3, 2, -0.1}, {3, 2, 1.1}, {3, 2, math.NaN()}, {0, 0, 0.5}, {-5, -1, 0.5}} {
		if got := ViolationBound(c.n, c.m, c.p); !math.IsNaN(got) {
			t.Errorf("n=%d m=%d p=%v: %v, want NaN", c.n, c.m, c.p, got)
		}
	}
	if got := ViolationBound(10001, 5001, 0.5); !(got > 0.999 && got <= 1) {
		t.Errorf("n=10001: %v", got)
	}
}

// With 17 of 32 votes, two coordinators must forget; with 24 of them, 16.
func ExampleViolationBound() {
	for _, m := range []int{17, 20, 24, 32} {
		fmt.Printf("%d of 32: %.1e\n", m, ViolationBound(32, m, 0.01))
	}
	// Output:
	// 17 of 32: 1.2e-02
	// 20 of 32: 1.1e-11
	// 24 of 32: 6.8e-27
	// 32 of 32: 1.0e-64
}

// The lecture's pictures: m coordinators voted for A, who is inside, and n−m for B.
// Some of the m forget, and those that B's requests reach afterwards vote for B.
func TestViolationBoundHoldsInTheVoteSwitchModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const trials = 40_000
	for _, c := range []struct {
		n, m int
		p    float64
	}{{3, 2, 0.05}, {5, 3, 0.2}, {5, 4, 0.3}, {9, 5, 0.1}, {8, 5, 0.4}, {32, 17, 0.1}} {
		// reached is how likely B's request comes after the coordinator forgot; rivals
		// how likely one of the n−m is for B and not for a third.
		broken := func(reached, rivals float64) float64 {
			count := 0
			for range trials {
				forB := 0
				for k := range c.n {
					forgot := r.Float64() < c.p && r.Float64() < reached
					if k < c.m && forgot || k >= c.m && r.Float64() < rivals {
						forB++
					}
				}
				if forB >= c.m {
					count++
				}
			}
			return float64(count) / trials
		}
		bound := ViolationBound(c.n, c.m, c.p)
		sigma := math.Sqrt(bound * (1 - bound) / trials)
		if worst := broken(1, 1); math.Abs(worst-bound) > 5*sigma {
			t.Errorf("n=%d m=%d p=%v: the worst case breaks exclusion in %v, the bound is %v ± %v", c.n, c.m, c.p, worst, bound, sigma)
		}
		if usual := broken(0.5, 0.5); usual > bound+5*sigma {
			t.Errorf("n=%d m=%d p=%v: exclusion breaks in %v, more than the bound %v", c.n, c.m, c.p, usual, bound)
		}
	}
}

// breaches counts the entries that found another inside, of runs in which everybody
// always wants to enter.
func breaches(a protocol.Algorithm, runs uint64) (overlaps, entries int) {
	for seed := range runs {
		w := newWorld(a, letters(5), seed)
		w.overlap = true
		for i := range 5 {
			w.ask(i)
		}
		for w.failure == nil && w.now < 20*protocol.Second {
			w.pass(20 * tm)
			for len(w.inside) > 0 {
				i := w.inside[0]
				w.leave(i)
				w.ask(i)
			}
		}
		overlaps += w.overlaps
		entries += len(w.entries)
	}
	return overlaps, entries
}

func TestForgetfulCoordinatorsBreakExclusion(t *testing.T) {
	if got, entries := breaches(Voting, 4); got != 0 || entries < 100 {
		t.Errorf("without resets, %d of %d entries found another inside", got, entries)
	}
	often, n := breaches(Forgetful(protocol.Second), 4)
	seldom, m := breaches(Forgetful(10*protocol.Second), 4)
	if often == 0 || float64(seldom)/float64(m) >= float64(often)/float64(n) {
		t.Errorf("breaches: %d of %d with a mean of 1 s, %d of %d with 10 s", often, n, seldom, m)
	}
}

// Half of the intervals of an exponential are below mean·ln 2, whatever came before.
func TestLapsesAreExponential(t *testing.T) {
	var env *static.Env
	m, err := static.New(protocol.Config{
		Self: protocol.Node{ID: "A"}, Members: letters(1), Timing: protocol.LAN(), Seed: 5,
		Settings: protocol.Settings{Resources: []string{crane}},
	}, func(e *static.Env) static.Core { env = e; return newVoting(e, protocol.Second) })
	if err != nil {
		t.Fatal(err)
	}
	var out protocol.Output
	if err := m.Step(0, &protocol.Input{Kind: protocol.Acquire, Ref: 1, Resource: crane}, &out); err != nil {
		t.Fatal(err)
	}
	const draws = 40_000
	var sum protocol.Duration
	short := 0
	for range draws {
		d := interval(env, protocol.Second)
		if sum += d; d < 693*protocol.Millisecond {
			short++
		}
	}
	if mean := float64(sum/draws) / float64(protocol.Second); math.Abs(mean-1) > 0.03 {
		t.Errorf("the mean is %v s, want 1", mean)
	}
	if half := float64(short) / draws; math.Abs(half-0.5) > 0.015 {
		t.Errorf("%v are below the median of an exponential", half)
	}
}
