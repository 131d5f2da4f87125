package plan

import (
	"fmt"
	"slices"

	"padme/qosmutex/sim/stats"
)

// mostTried bounds the contenders that are simulated only to see what a requirement costs.
const mostTried = 24

// flips are the conditions under which another choice would be better: without one of the
// requirements, with another first goal, or at another load.
func (s *search) flips(f *finalists) (all []Flip) {
	s.phase = "what would change it"
	for i := range s.Requirements {
		r := &s.Requirements[i]
		if x := s.bestWithout(r); x != nil && x != f.choice {
			all = append(all, s.flip(f, x, s.goals, "without "+r.text)...)
		}
	}
	for i := 1; i < len(s.goals); i++ {
		goals := append([]Goal{s.goals[i]}, without2(s.goals, s.goals[i])...)
		if feasible := s.feasible(""); len(feasible) > 0 {
			x, _ := s.best(feasible, goals, (*difference).near)
			all = append(all, s.flip(f, x, goals[:1], fmt.Sprintf("if %s came first", goals[0].Figure))...)
		}
	}
	if f.choice.Algorithm.Static {
		all = append(all, s.survivor(f)...)
	}
	for _, load := range []float64{lighter, heavier} {
		if f.runnerUp == nil || len(made(s.fresh[freshKey{f.choice, load, ""}])) < 2 {
			continue
		}
		if d := s.decide(f, load); !d.Tie && d.Difference.Mean < 0 {
			all = append(all, s.newFlip(f, f.runnerUp, d.Figure, load, fmt.Sprintf("at %.0f %% of the load", 100*load)))
		}
	}
	return all
}

// survivor is what to take instead of an algorithm that dies with a holder.
func (s *search) survivor(f *finalists) []Flip {
	others := slices.DeleteFunc(s.feasible(""), func(e *entry) bool { return e.Algorithm.Static })
	if len(others) == 0 {
		return nil
	}
	x, _ := s.best(others, s.goals, (*difference).near)
	s.refresh([]*entry{x}, 1, "", freshRuns/2, 1)
	return []Flip{s.newFlip(f, x, s.goals[0].Figure, 1, "if a holder may die")}
}

func without2(goals []Goal, g Goal) []Goal {
	return slices.DeleteFunc(slices.Clone(goals), func(o Goal) bool { return o == g })
}

// feasible are contenders whose means meet the limits, all but one.
func (s *search) feasible(but string) []*entry {
	return slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool {
		return e.refused != "" || len(made(e.samples)) == 0 || s.excess(e.samples, but) > 0
	})
}

// bestWithout is the best of those that only this requirement refuses, as far as they were
// simulated or may be now; nil if there is none.
func (s *search) bestWithout(r *Requirement) *entry {
	var only []*entry
	if r.fact == noFact {
		only = slices.DeleteFunc(s.feasible(r.text), func(e *entry) bool { return s.excess(e.samples, "") == 0 })
	} else {
		for _, e := range s.entries {
			if len(e.by) == 1 && e.by[0] == r.text && len(only) < mostTried {
				only = append(only, e)
			}
		}
		s.try(only)
		only = slices.DeleteFunc(only, func(e *entry) bool { return len(made(e.samples)) == 0 || s.excess(e.samples, "") > 0 })
	}
	if len(only) == 0 {
		return nil
	}
	limits := s.limits
	defer func() { s.limits = limits }()
	s.limits = slices.DeleteFunc(slices.Clone(limits), func(l Requirement) bool { return l.text == r.text })
	x, _ := s.best(only, s.goals, (*difference).near)
	return x
}

// try simulates contenders that are refused by a fact.
func (s *search) try(all []*entry) {
	var jobs []job
	for k := range firstSeeds {
		for _, e := range all {
			e.samples = append(e.samples, nil)
			jobs = append(jobs, job{e, trial{seed: s.Seed + uint64(k), load: 1}, func(f Figures) { e.samples[k] = f }})
		}
	}
	s.do(jobs, 0.97)
}

// flip is that to x, if with other seeds it is better by the first goal that tells it apart.
func (s *search) flip(f *finalists, x *entry, goals []Goal, condition string) []Flip {
	if x == f.choice || x.place == f.choice.place {
		return nil
	}
	s.refresh([]*entry{x}, 1, "", min(freshRuns/2, len(s.fresh[freshKey{f.choice, 1, ""}])), 1)
	for _, g := range goals {
		d := differ(s.fresh[freshKey{f.choice, 1, ""}], s.fresh[freshKey{x, 1, ""}], g, s.Zone)
		switch {
		case d.n < 2 || !d.tie() && d.mean < 0:
			return nil
		case !d.tie():
			return []Flip{s.newFlip(f, x, g.Figure, 1, condition)}
		}
	}
	return nil
}

func (s *search) newFlip(f *finalists, x *entry, figure string, load float64, condition string) Flip {
	of := func(e *entry) (v stats.Interval) {
		if all := values(s.fresh[freshKey{e, load, ""}], figure); len(all) > 1 {
			v = stats.IntervalOf(all, confidence, 1)
		}
		return v
	}
	return Flip{condition, x.String(), figure, of(x), of(f.choice)}
}
