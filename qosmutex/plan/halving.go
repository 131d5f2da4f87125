package plan

import (
	"maps"
	"slices"
)

const (
	firstSeeds = 2 // with which every contender runs
	lastOnes   = 6 // contenders among which computing budget is allocated
	lastSeeds  = 8 // with which those run at least
	mostSeeds  = 200

	halvingEnds  = 0.50 // shares of the budget
	choosingEnds = 0.70
	checkingEnds = 0.92
)

// halve runs contenders with a few seeds, drops the worse half, and goes on with more seeds,
// until few are left (successive halving: Karnin, Koren and Somekh, 2013; Jamieson and
// Talwalkar, 2016).
func (s *search) halve(alive []*entry) []*entry {
	s.phase = "halving"
	for seeds := firstSeeds; ; seeds += (seeds + 1) / 2 {
		s.left = len(alive)
		whole := s.sample(alive, seeds, halvingEnds)
		alive = slices.DeleteFunc(alive, func(e *entry) bool { return e.refused != "" || len(made(e.samples)) == 0 })
		alive = s.rank(merge(alive))
		if !whole || len(alive) <= lastOnes {
			return alive[:min(lastOnes, len(alive))]
		}
		alive = alive[:max(lastOnes, len(alive)/2)]
	}
}

// made are the runs that were made.
func made(samples []Figures) []Figures {
	return slices.DeleteFunc(slices.Clone(samples), func(f Figures) bool { return f == nil })
}

// sample runs contenders with the first seeds, seed by seed, so that an end finds all of them
// with about as many.
func (s *search) sample(all []*entry, seeds int, share float64) (whole bool) {
	var jobs []job
	for k := range seeds {
		for _, e := range all {
			if k >= len(e.samples) {
				e.samples = append(e.samples, nil)
			}
			if e.samples[k] == nil && e.refused == "" {
				jobs = append(jobs, job{e, trial{seed: s.Seed + uint64(k), load: 1}, func(f Figures) { e.samples[k] = f }})
			}
		}
	}
	return s.do(jobs, share)
}

// merge leaves the first of those that measured the same in every run, such as two models
// that only differ where a tree is deep: else they would crowd out all others.
func merge(all []*entry) (kept []*entry) {
	slices.SortFunc(all, func(a, b *entry) int { return a.place - b.place })
	for _, e := range all {
		twin := slices.IndexFunc(kept, func(o *entry) bool {
			return equal(o, e)
		})
		if twin < 0 {
			kept = append(kept, e)
			continue
		}
		kept[twin].same = append(append(kept[twin].same, e), e.same...)
		e.same = nil
	}
	return kept
}

// equal reports whether two measured the same with the seeds that both had.
func equal(a, b *entry) bool {
	both := 0
	for k := range min(len(a.samples), len(b.samples)) {
		if a.samples[k] == nil || b.samples[k] == nil {
			continue
		}
		if both++; !maps.Equal(a.samples[k], b.samples[k]) {
			return false
		}
	}
	return both > 0
}

// rejoin has some of those that measured the same as the best with a few seeds run with more,
// and returns those that do not any more.
func (s *search) rejoin(best *entry) (different []*entry) {
	some := best.same[:min(lastOnes, len(best.same))]
	s.sample(some, lastSeeds, choosingEnds)
	for _, e := range some {
		if !equal(best, e) {
			different = append(different, e)
		}
	}
	best.same = slices.DeleteFunc(best.same, func(e *entry) bool { return slices.Contains(different, e) })
	return different
}
