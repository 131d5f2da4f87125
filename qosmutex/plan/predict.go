package plan

import (
	"context"
	"fmt"

	"padme/qosmutex/sim"
)

// VerifyRuns is a number of simulated runs of which the middle 95 % is exact: with the 10th and
// the 390th of 399 values, another one of their kind is between the two with a probability of
// 380 of 400.
const VerifyRuns = 399

// ScenarioOf is how a contender runs with a seed: as Solve runs it, with the load as it is.
func (p *Problem) ScenarioOf(c *Contender, seed uint64) (sim.Scenario, error) {
	setup, err := p.Setup(*c, seed)
	if err != nil {
		return sim.Scenario{}, err
	}
	adjust(&setup.Scenario, 1)
	return setup.Scenario, nil
}

// Predict simulates a contender once with each seed. The figures of those runs are what to
// expect of one further run, which differs from them by chance as they do from each other.
func Predict(ctx context.Context, p *Problem, c *Contender, seeds []uint64) ([]Figures, error) {
	own := *p
	own.Runs, own.Spent = 0, nil
	s := &search{Problem: &own, ctx: ctx, phase: "predicting", left: 1}
	e := &entry{Contender: c}
	all := make([]Figures, len(seeds))
	var jobs []job
	for i, seed := range seeds {
		jobs = append(jobs, job{e, trial{seed: seed, load: 1}, func(f Figures) { all[i] = f }})
	}
	whole := s.do(jobs, 1)
	switch {
	case e.refused != "":
		return nil, fmt.Errorf("%s: %s", c, e.refused)
	case !whole:
		return nil, fmt.Errorf("%w: not all runs were simulated", context.Cause(ctx))
	}
	return all, nil
}
