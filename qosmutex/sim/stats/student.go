package stats

import "math"

// Interval is a mean and half of the width of its interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"`
}

// IntervalOf is Student's interval of that confidence for the mean of what values are a
// sample of, which are two at least. Of so many intervals together one is wrong with the
// probability that one alone may be (Bonferroni).
func IntervalOf(values []float64, confidence float64, together int) Interval {
	mean, deviation := MeanDeviation(values)
	t := StudentQuantile(1-(1-confidence)/float64(together), len(values)-1)
	return Interval{mean, t * deviation / math.Sqrt(float64(len(values)))}
}

// MeanDeviation returns the mean of values and their standard deviation as a sample.
func MeanDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	return mean, math.Sqrt(deviation)
}

// StudentQuantile is t such that with the probability p Student's variable of so many degrees
// of freedom is between -t and t.
func StudentQuantile(p float64, freedom int) float64 {
	low, high := 0.0, math.Pi/2
	for range 60 { // as far as a float goes
		if middle := (low + high) / 2; studentWithin(middle, freedom) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Tan(low) * math.Sqrt(float64(freedom))
}

// StudentAbove is the probability that Student's variable of so many degrees of freedom is
// above t.
func StudentAbove(t float64, freedom int) float64 {
	within := studentWithin(math.Atan(math.Abs(t)/math.Sqrt(float64(freedom))), freedom)
	if t < 0 {
		return (1 + within) / 2
	}
	return (1 - within) / 2
}

// studentWithin is the probability of being between -t and t, where t is the tangent of angle
// times the root of the degrees of freedom (Abramowitz and Stegun, Handbook of Mathematical
// Functions, 26.7.3 and 26.7.4).
func studentWithin(angle float64, freedom int) float64 {
	sin, cos := math.Sincos(angle)
	sum, term, first := 0.0, 1.0, 2 // even
	if freedom%2 == 1 {
		term, first = cos, 3
	}
	for k := first; k <= freedom; k += 2 {
		sum += term
		term *= cos * cos * float64(k-1) / float64(k)
	}
	if freedom%2 == 1 {
		return 2 / math.Pi * (angle + sin*sum)
	}
	return sin * sum
}
