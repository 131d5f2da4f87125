package classic

import (
	"fmt"
	"math"
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
