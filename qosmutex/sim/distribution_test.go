package sim

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// Mean and standard deviation of 200,000 draws, within two per cent.
func TestDistributionsHaveTheirMoments(t *testing.T) {
	const ms = float64(protocol.Millisecond)
	for _, c := range []struct {
		d             Distribution
		mean, deviate float64
	}{
		{Distribution{}, 0, 0},
		{Constant(7 * protocol.Millisecond), 7 * ms, 0},
		{Uniform(2*protocol.Millisecond, 10*protocol.Millisecond), 6 * ms, 8 * ms / math.Sqrt(12)},
		{Uniform(3, 7), 5, math.Sqrt2}, // without one of its bounds, half a nanosecond off
		{Exponential(5 * protocol.Millisecond), 5 * ms, 5 * ms},
		{Normal(20*protocol.Millisecond, 2*protocol.Millisecond), 20 * ms, 2 * ms},
		{Normal(0, 10*protocol.Millisecond), 10 * ms * math.Sqrt(2/math.Pi), 10 * ms * math.Sqrt(1-2/math.Pi)}, // one half is cut off
		{LogNormal(8*protocol.Millisecond, 4*protocol.Millisecond), 8 * ms, 4 * ms},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		const n = 200_000
		var sum, squares, beyond float64
		for range n {
			x := float64(c.d.draw(r))
			sum, squares = sum+x, squares+x*x
			if x > float64(c.d.greatest()) {
				beyond++
			}
		}
		mean := sum / n
		deviation := math.Sqrt(max(0, squares/n-mean*mean))
		if math.Abs(mean-c.mean) > 0.02*c.mean || math.Abs(deviation-c.deviate) > 0.02*c.deviate+1 {
			t.Errorf("%v: mean %.3f ms, deviation %.3f ms; want %.3f and %.3f", c.d, mean/ms, deviation/ms, c.mean/ms, c.deviate/ms)
		}
		bounded := c.d.shape == constant || c.d.shape == uniform
		if want := 0.001; bounded && beyond > 0 || !bounded && math.Abs(beyond/n-want) > 5*math.Sqrt(want/n) {
			t.Errorf("%v: %v of the draws are above %s", c.d, beyond/n, seconds(c.d.greatest()))
		}
	}
}

func TestDrawsStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Int64Range(0, int64(longest))
		a, b := protocol.Duration(span.Draw(t, "a")), protocol.Duration(span.Draw(t, "b"))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for _, d := range []Distribution{
			Constant(a), Uniform(min(a, b), max(a, b)), Exponential(a), Normal(a, b), LogNormal(a, b),
		} {
			if d.validate("it") != nil {
				continue
			}
			for range 20 {
				if x := d.draw(r); x < 0 || x > longest || d.shape == uniform && (x < d.a || x > d.b) {
					t.Fatalf("%v gave %d", d, x)
				}
			}
		}
	})
}

func TestImpossibleDistributionsAreRefused(t *testing.T) {
	for want, d := range map[string]Distribution{
		"constant -0.001s":             Constant(-protocol.Millisecond),
		"greatest value is below":      Uniform(2, 1),
		"exponential -0.001s":          Exponential(-protocol.Millisecond),
		"normal 1.000s -1.000s":        Normal(second, -second),
		"a mean of 0 has no deviation": LogNormal(0, 1),
		"uniform 0.000s never":         Uniform(0, protocol.Never),
	} {
		if err := d.validate("it"); !errors.Is(err, ErrScenario) || !strings.Contains(strings.ReplaceAll(err.Error(), "it: -", "it: constant -"), want) {
			t.Errorf("%v: got %v, want %s", d, err, want)
		}
	}
}

// A takes one second to the server and three back; B two and five, all half as
// long: each waits as long as its own way there and back.
func TestEachPairHasItsOwnLatency(t *testing.T) {
	sc := star(2)
	sc.Workload = Workload{}
	sc.Network.Latency = Matrix{Scale: 0.5, Each: [][]protocol.Duration{
		{0, 3 * second, 5 * second},
		{1 * second, 0, 99 * second},
		{2 * second, 99 * second, 0},
	}}
	sc.Arrivals = []Arrival{wish(0, "A", 1, 0), wish(100, "B", 2, 0)}
	var reached []protocol.Time
	sc.Trace = func(r *Record) {
		if r.Event == Delivered && r.Kind == protocol.KindRequest {
			reached = append(reached, r.At-sc.Start)
		}
	}
	r, err := mustNew(t, "", sc).Run()
	if err != nil {
		t.Fatal(err)
	}
	if want := []protocol.Time{second / 2, 101 * second}; !slices.Equal(reached, want) {
		t.Errorf("the requests came at %v, want %v", reached, want)
	}
	if a, b := r.ByNode[1].Waited, r.ByNode[2].Waited; a != 2*second || b != 3500*protocol.Millisecond {
		t.Errorf("A waited %s, B %s", seconds(a), seconds(b))
	}
}

func TestMatricesAreChecked(t *testing.T) {
	for want, m := range map[string]Matrix{
		"has 1 rows for 2 participants":          {Each: [][]protocol.Duration{{0, 0}}},
		"row 1 of the latency matrix has 1 colu": {Each: [][]protocol.Duration{{0, 0}, {0}}},
		"from participant 0 to 1 is -1.000s":     {Each: [][]protocol.Duration{{0, -second}, {0, 0}}},
		"cannot be scaled by NaN":                {Scale: math.NaN(), Each: [][]protocol.Duration{{0, 0}, {0, 0}}},
	} {
		sc := star(1)
		sc.Network.Latency = m
		if _, err := New(centralServer(""), sc); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if got := (Matrix{Scale: 2, Each: [][]protocol.Duration{{99, 3}, {5, 99}}}).greatestOf(); got != 10 {
		t.Errorf("the greatest latency is %d, want 10", got)
	}
}

// A scaled distribution is that of scaled parameters, whatever its shape.
func TestDistributionsScale(t *testing.T) {
	const ms = protocol.Millisecond
	for _, c := range [][2]Distribution{
		{Constant(2 * ms), Constant(3 * ms)},
		{Uniform(2*ms, 4*ms), Uniform(3*ms, 6*ms)},
		{Exponential(2 * ms), Exponential(3 * ms)},
		{Normal(2*ms, 4*ms), Normal(3*ms, 6*ms)},
		{LogNormal(2*ms, 4*ms), LogNormal(3*ms, 6*ms)},
		{Constant(longest), Constant(longest)},
	} {
		if got := c[0].Scale(1.5); got != c[1] {
			t.Errorf("%v times 1.5 is %v, want %v", c[0], got, c[1])
		}
	}
}
