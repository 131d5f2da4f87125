package observer

import (
	"slices"
	"time"
)

// Delay sums up a set of durations; all are zero when it is empty.
type Delay struct {
	Count               int
	Mean, P50, P99, Max time.Duration
}

// delayOf sums up the durations, which it sorts.
func delayOf(all []time.Duration) Delay {
	if len(all) == 0 {
		return Delay{}
	}
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	// The nearest rank: the smallest value that at least this part is not above.
	rank := func(percent int) time.Duration { return all[(len(all)*percent+99)/100-1] }
	return Delay{len(all), sum / time.Duration(len(all)), rank(50), rank(99), all[len(all)-1]}
}
