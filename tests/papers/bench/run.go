package bench

import (
	"fmt"
	"math"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Seeds is how many runs every experiment with chance in it is made of.
const Seeds = 10

// Spread sums up what several seeds show.
type Spread struct {
	Mean      float64
	Deviation float64 // standard deviation of the seeds
}

// SpreadOf sums up values; of none, it is zero.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	n := float64(len(values))
	var s Spread
	for _, v := range values {
		s.Mean += v / n
	}
	for _, v := range values {
		s.Deviation += (v - s.Mean) * (v - s.Mean) / n
	}
	s.Deviation = math.Sqrt(s.Deviation)
	return s
}

// Run runs a scenario to its end.
func Run(a protocol.Algorithm, sc sim.Scenario) (*sim.Result, error) {
	s, err := sim.New(a, sc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	r, err := s.Run()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return r, nil
}

// share is 100 a/b, and 0 where there is nothing to share.
func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return 100 * a / b
}
