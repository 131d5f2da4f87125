package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"padme/qosmutex/protocol"
)

// Distribution is a random span of time, never negative: how long a message
// takes, an application stays inside or thinks. The zero Distribution is always 0.
// Distributions can be compared with ==.
type Distribution struct {
	shape     shape
	a, b      protocol.Duration // what the constructor was given
	mu, sigma float64           // LogNormal: of the logarithm
}

type shape uint8

const (
	constant shape = iota
	uniform
	exponential
	normal
	logNormal
)

var shapeNames = [...]string{"constant", "uniform", "exponential", "normal", "lognormal"}

// longest bounds every span, so that instants do not overflow: 36 years.
const longest protocol.Duration = 1 << 60

// Constant is always d.
func Constant(d protocol.Duration) Distribution { return Distribution{a: d} }

// Uniform is between least and greatest, both included.
func Uniform(least, greatest protocol.Duration) Distribution {
	return Distribution{shape: uniform, a: least, b: greatest}
}

// Exponential has the given mean: the time between events that do not know of each
// other, such as the arrivals of a Poisson process.
func Exponential(mean protocol.Duration) Distribution {
	return Distribution{shape: exponential, a: mean}
}

// Normal is the bell curve, truncated: a negative value is drawn again. The mean
// is a little above the given one where that happens often.
func Normal(mean, deviation protocol.Duration) Distribution {
	return Distribution{shape: normal, a: mean, b: deviation}
}

// LogNormal has the given mean and standard deviation and a long tail, as the
// latency of many networks.
func LogNormal(mean, deviation protocol.Duration) Distribution {
	d := Distribution{shape: logNormal, a: mean, b: deviation}
	if mean > 0 {
		ratio := float64(deviation) / float64(mean)
		variance := math.Log1p(ratio * ratio)
		d.mu, d.sigma = math.Log(float64(mean))-variance/2, math.Sqrt(variance)
	}
	return d
}

// Scale returns the distribution of factor times what d draws. The factor must not be
// negative.
func (d Distribution) Scale(factor float64) Distribution {
	a, b := span(float64(d.a)*factor), span(float64(d.b)*factor)
	if d.shape == logNormal {
		return LogNormal(a, b)
	}
	d.a, d.b = a, b
	return d
}

func (d Distribution) String() string {
	switch d.shape {
	case constant:
		return seconds(d.a)
	case exponential:
		return shapeNames[d.shape] + " " + seconds(d.a)
	}
	return shapeNames[d.shape] + " " + seconds(d.a) + " " + seconds(d.b)
}

func (d *Distribution) validate(what string) error {
	if d.a < 0 || d.b < 0 || d.a > longest || d.b > longest {
		return fmt.Errorf("%w: %s: %v: a time must be between 0 and %s", ErrScenario, what, *d, seconds(longest))
	}
	if d.shape == uniform && d.b < d.a {
		return fmt.Errorf("%w: %s: %v: the greatest value is below the least", ErrScenario, what, *d)
	}
	if d.shape == logNormal && d.a == 0 && d.b > 0 {
		return fmt.Errorf("%w: %s: %v: a mean of 0 has no deviation", ErrScenario, what, *d)
	}
	return nil
}

func (d *Distribution) draw(r *rand.Rand) protocol.Duration {
	switch d.shape {
	case uniform:
		return d.a + protocol.Duration(r.Int64N(int64(d.b-d.a)+1))
	case exponential:
		return span(r.ExpFloat64() * float64(d.a))
	case normal:
		for {
			if x := float64(d.a) + r.NormFloat64()*float64(d.b); x >= 0 {
				return span(x)
			}
		}
	case logNormal:
		if d.a == 0 {
			return 0
		}
		return span(math.Exp(d.mu + r.NormFloat64()*d.sigma))
	}
	return d.a
}

// span rounds x nanoseconds, within what a Distribution may be.
func span(x float64) protocol.Duration {
	return protocol.Duration(math.Round(min(x, float64(longest))))
}

// greatest is a bound that is exceeded once in a thousand draws where the
// distribution has no bound, else never.
func (d *Distribution) greatest() protocol.Duration {
	const z = 3.0902 // of the normal distribution
	switch d.shape {
	case uniform:
		return d.b
	case exponential:
		return span(math.Log(1000) * float64(d.a))
	case normal:
		if d.b == 0 {
			return d.a
		}
		left := math.Erfc(-float64(d.a)/float64(d.b)/math.Sqrt2) / 2 // of the bell, the part that is not cut off
		return span(float64(d.a) + math.Sqrt2*math.Erfinv(1-2*left/1000)*float64(d.b))
	case logNormal:
		if d.a > 0 {
			return span(math.Exp(d.mu + z*d.sigma))
		}
	}
	return d.a
}
