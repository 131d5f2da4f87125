package workload

import (
	"math"
	"strconv"
	"time"
)

// longest is the longest time of a scenario.
const longest = time.Duration(1 << 60)

// sample is the number, mean and spread of times in seconds.
type sample struct {
	n        int
	mean, m2 float64 // m2: the sum of the squared differences to the mean
}

func (s *sample) add(x float64) {
	s.n++
	d := x - s.mean
	s.mean += d / float64(s.n)
	s.m2 += d * (x - s.mean)
}

// merge adds the times of o.
func (s *sample) merge(o *sample) {
	if o.n == 0 {
		return
	}
	n := float64(s.n + o.n)
	d := o.mean - s.mean
	s.m2 += o.m2 + d*d*float64(s.n)*float64(o.n)/n
	s.mean += d * float64(o.n) / n
	s.n += o.n
}

func (s *sample) deviation() float64 {
	if s.n < 2 {
		return 0
	}
	return math.Sqrt(s.m2 / float64(s.n-1))
}

// cv is the coefficient of variation.
func (s *sample) cv() float64 {
	if s.mean == 0 {
		return 0
	}
	return s.deviation() / s.mean
}

// text is the distribution with that mean and spread, as a scenario has it.
func (s *sample) text() string { return distribution(s.mean, s.cv()) }

// distribution names the simplest one with a mean in seconds and a coefficient of variation.
func distribution(mean, cv float64) string {
	m, d := span(mean), span(mean*cv)
	switch {
	case cv < 0.05 || m == "0s":
		return m
	case cv >= 0.8 && cv <= 1.25:
		return "exponential:" + m
	case cv < 0.5:
		return "normal:" + m + "," + d
	}
	return "lognormal:" + m + "," + d
}

// span writes seconds with three digits.
func span(seconds float64) string {
	if seconds < 1e-6 { // below what clocks tell
		if seconds <= 0 {
			return "0s"
		}
		return "1µs"
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(seconds, 'e', 2, 64), 64)
	return time.Duration(math.Round(min(rounded*1e9, float64(longest)))).String()
}

// take adds the time between two instants of one clock, unless they cannot be true: what
// lasts longer than it was recorded is the work of a clock that was set, or of a stranger.
func (w *Workload) take(s *sample, from, to instant) {
	w.add(s, to.at.Sub(from.at).Seconds(), to.arrived-from.arrived)
}

// slack is how much longer a time may be than the recorder saw it last.
const slack = 60_000

// add adds seconds that the recorder saw last so many milliseconds.
func (w *Workload) add(s *sample, seconds float64, recorded int64) {
	if !w.credible(seconds, recorded) {
		w.counts.absurd++
		return
	}
	s.add(seconds)
}

func (*Workload) credible(seconds float64, recorded int64) bool {
	return seconds >= 0 && seconds*1000 <= float64(recorded+slack) // not so of NaN
}
