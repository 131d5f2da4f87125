package plan

import (
	"math"
	"slices"
)

// allocate spends runs on the last few until the best of them is right with the wanted
// probability; it returns them, and that. After Chen et al. (2000) a contender's share of the runs grows
// with the square of its noise over its distance from the best; the noise is that of the
// difference to the best with the same seeds, so the best runs with as many as any other.
func (s *search) allocate(last []*entry) (all []*entry, right float64) {
	s.phase, s.left = "choosing", len(last)
	s.sample(last, lastSeeds, choosingEnds)
	b, _ := s.best(last, s.goals, (*difference).near)
	last = append(last, s.rejoin(b)...)
	for {
		b, _ = s.best(last, s.goals, (*difference).near)
		right = s.rightChoice(b, last)
		next := s.starved(b, last)
		if right >= confidence || next == nil || s.over(choosingEnds) {
			return last, right
		}
		more := len(next.samples) + max(2, len(next.samples)/8)
		if !s.sample(slices.Compact([]*entry{b, next}), min(mostSeeds, more), choosingEnds) {
			return last, s.rightChoice(b, last)
		}
	}
}

// rightChoice is a lower bound of the probability that b meets the limits and no other is
// better by more than matters (Bonferroni).
func (s *search) rightChoice(b *entry, last []*entry) float64 {
	right := 1 - s.misses(b)
	for _, e := range last {
		if e != b {
			wrong, _ := s.versus(e, b)
			right -= wrong
		}
	}
	return max(0, right)
}

// misses is the probability that b does not meet the limits that its mean meets.
func (s *search) misses(b *entry) (sum float64) {
	if s.excess(b.samples, "") > 0 {
		return 0 // as far as is known nobody does: b is the nearest
	}
	for i := range s.limits {
		d := s.limits[i].margin(b)
		sum += d.wrong()
	}
	return sum
}

// margin is how far a contender is from a limit, positive if it meets it.
func (r *Requirement) margin(e *entry) difference {
	limit := make([]Figures, len(e.samples))
	for k := range limit {
		limit[k] = Figures{r.figure: r.limit}
	}
	return differ(limit, e.samples, r.goal(), 0)
}

// versus is the probability that e should have been chosen instead of b, and the share of the
// runs that it needs to make that sure: the square of noise over distance where they differ.
func (s *search) versus(e, b *entry) (wrong, needs float64) {
	if by := s.excess(e.samples, ""); by > s.excess(b.samples, "") {
		for i := range s.limits {
			r := &s.limits[i]
			if d := r.margin(e); d.mean < 0 {
				d.mean = -d.mean
				return d.wrong(), d.needs()
			}
		}
		return 0, 0
	}
	for _, g := range s.goals {
		d := differ(e.samples, b.samples, g, s.Zone)
		wrong += d.wrong()
		needs = max(needs, d.needs())
		if !d.near() {
			break
		}
	}
	return wrong, needs
}

// needs is the square of noise over distance, at least the distance that matters.
func (d *difference) needs() float64 {
	if d.deviation == 0 || d.n < 2 {
		return 0
	}
	return math.Pow(d.deviation/max(math.Abs(d.mean), d.zone, 1e-12), 2)
}

// starved is who has the fewest runs of those that it needs; nil if more would not help.
func (s *search) starved(b *entry, last []*entry) (most *entry) {
	worst := 0.0
	for _, e := range last {
		wrong, needs := s.versus(e, b)
		if e == b {
			wrong, needs = s.misses(b), 1
		}
		if lack := needs / float64(len(e.samples)); wrong > (1-confidence)/float64(2*len(last)) && lack > worst && len(e.samples) < mostSeeds {
			most, worst = e, lack
		}
	}
	return most
}

// without are entries but one.
func without(all []*entry, one *entry) []*entry {
	return slices.DeleteFunc(slices.Clone(all), func(e *entry) bool { return e == one })
}
