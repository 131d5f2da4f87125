package papers

import (
	"math"
	"testing"

	"padme/qosmutex/classic"
	"padme/tests/papers/bench"
)

// TestViolationBound holds the lecture's bound against a simulation of its model,
// with the exact value where it is easy: of the least majority of an odd n, one that
// forgets is enough.
func TestViolationBound(t *testing.T) {
	const trials = 100_000
	for _, c := range []struct {
		n, m int
		p    float64
	}{{3, 2, 0.1}, {5, 3, 0.05}, {9, 5, 0.2}, {9, 7, 0.4}, {32, 17, 0.1}, {32, 20, 0.2}} {
		bound := classic.ViolationBound(c.n, c.m, c.p)
		got := bench.VoteSwitch(c.n, c.m, c.p, trials, 7)
		if sigma := math.Sqrt(bound * (1 - bound) / trials); math.Abs(got-bound) > 4*sigma {
			t.Errorf("n = %d, m = %d, p = %v: simulated %.5f, the bound is %.5f ± %.5f", c.n, c.m, c.p, got, bound, 4*sigma)
		}
		if c.n == 2*c.m-1 {
			if exact := 1 - math.Pow(1-c.p, float64(c.m)); math.Abs(bound-exact) > 1e-12 {
				t.Errorf("n = %d, m = %d, p = %v: the bound is %v, want %v", c.n, c.m, c.p, bound, exact)
			}
		}
	}
}

// TestForgetfulCoordinators runs the machines. They break exclusion no more often than
// the bound allows, and about as often as it takes m of the n votes, all of which the
// one inside mostly has, to be forgotten.
func TestForgetfulCoordinators(t *testing.T) {
	const n, m = bench.ForgetfulN, bench.ForgetfulN/2 + 1
	for _, p := range []float64{0.1, 0.2} {
		r, err := bench.Forgetful(p, 20_000)
		if err != nil {
			t.Fatal(err)
		}
		likely, bound := bench.AtLeast(n, m, p), classic.ViolationBound(n, m, p)
		t.Logf("p = %v: %d of %d, %.4f; expected %.4f, bound %.4f", p, r.Overlaps, r.Entries, r.Measured(), likely, bound)
		if got := r.Measured(); got > bound || got < likely/2 || got > 2*likely {
			t.Errorf("p = %v: %.4f of the entries find another inside; expected about %.4f, at most %.4f", p, got, likely, bound)
		}
	}
}
