package workload

import (
	"math"
	"slices"
)

const (
	// enough is how many times a mean needs to be believed.
	enough = 10
	// apart is how many standard errors tell two figures apart: with 2, one of twenty askers
	// that are alike would stand out by chance.
	apart = 3
	// near is by which share two figures may differ that a reader takes for the same.
	near = 0.05
)

// pool puts the samples that are alike together, and returns for each of all the sum of its
// group. It starts each group with the sample of most times.
func pool(all []*sample) []*sample {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return all[j].n - all[i].n })
	groups := make([]*sample, len(all))
	for len(order) > 0 {
		seed := all[order[0]]
		sum := &sample{}
		rest := order[:0]
		for _, i := range order {
			if !alike(seed, all[i]) {
				rest = append(rest, i)
				continue
			}
			sum.merge(all[i])
			groups[i] = sum
		}
		order = rest
	}
	return groups
}

// alike reports whether chance explains the difference between two samples, of which s has
// more times.
func alike(s, o *sample) bool {
	if s == o {
		return true
	}
	its, own := s.deviation(), o.deviation()
	if s.n < fewest { // it shows no spread
		its = max(its, s.mean)
	}
	if o.n < enough { // its own spread is too rough
		own = max(own, its)
	}
	of := math.Sqrt(square(its)/float64(s.n) + square(own)/float64(o.n))
	if math.Abs(s.mean-o.mean) > max(apart*of, near*s.mean) {
		return false
	}
	if o.n < enough {
		return true
	}
	return math.Abs(s.cv()-o.cv()) <= max(apart*math.Hypot(s.cvError(), o.cvError()), near)
}

// cvError is about the standard error of the coefficient of variation.
func (s *sample) cvError() float64 {
	cv := s.cv()
	return cv * math.Sqrt((0.5+cv*cv)/float64(s.n))
}

func square(x float64) float64 { return x * x }
