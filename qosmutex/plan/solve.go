package plan

import (
	"context"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// Solve chooses. It ends early, with what is known so far, when the budget or ctx ends; the
// error is that of ctx if nothing is known yet, or wraps [ErrPlan].
func Solve(ctx context.Context, p *Problem) (*Plan, error) {
	s := &search{Problem: p, ctx: ctx, goals: p.Goals, limits: limits(p.Requirements), fresh: map[freshKey][]Figures{}}
	if len(s.goals) == 0 {
		s.goals = []Goal{{Figure: "wait.p99"}, {Figure: "messages"}}
	}
	for i := range p.Contenders {
		s.entries = append(s.entries, &entry{Contender: &p.Contenders[i], place: i})
	}
	if len(s.entries) == 0 {
		return nil, fmt.Errorf("%w: there is no contender", ErrPlan)
	}
	if err := s.checkFigures(); err != nil {
		return nil, err
	}
	last := s.halve(s.prune())
	if len(last) == 0 {
		if ctx.Err() != nil || s.over(halvingEnds) && s.runs == 0 {
			return nil, fmt.Errorf("%w: nothing was simulated yet", cause(ctx))
		}
		return s.report(nil, 0), nil
	}
	last, right := s.allocate(last)
	return s.report(s.check(last), right), nil
}

// cause is why the work has ended.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: the budget is too small", ErrPlan)
}

// checkFigures finds figures of priorities that nobody asks with.
func (s *search) checkFigures() error {
	setup, err := s.Setup(s.Contenders[0], s.Seed)
	if err != nil {
		return err
	}
	known := priorities(&setup.Scenario)
	slices.Sort(known)
	check := func(figure string) error {
		var p int64
		q, err := quantityOf(figure)
		if err != nil || figure == q.name {
			return err
		}
		_, _ = fmt.Sscanf(figure[len(q.name):], "[%d]", &p)
		if !slices.Contains(known, p) {
			return fmt.Errorf("%w: %s: nobody asks with priority %d: there are %d", ErrPlan, figure, p, known)
		}
		return nil
	}
	for _, r := range s.limits {
		if err := check(r.figure); err != nil {
			return err
		}
	}
	for _, g := range s.goals {
		if err := check(g.Figure); err != nil {
			return err
		}
	}
	return nil
}

// prune refuses what is known to be out of question, and returns the others.
func (s *search) prune() (alive []*entry) {
	for _, e := range s.entries {
		if unfit(e.Algorithm.Name) {
			e.refuse("", "it is for a figure of its paper, or to be seen failing")
			continue
		}
		setup, err := s.Setup(*e.Contender, s.Seed)
		if err != nil {
			e.refuse("", cannot(e.Contender, err))
			continue
		}
		if byDeadline(e.Contender) && e.place > 0 && !deadlines(&setup.Scenario) {
			e.refuse("", "no request has a deadline")
			continue
		}
		for i := range s.Requirements {
			r := &s.Requirements[i]
			if why := r.fact.refuse(e.Contender, &setup.Scenario); why != "" {
				e.refuse(r.text, why)
			} else if r.drilled() && e.Algorithm.Static {
				e.refuse(r.text, fixedMembers)
			}
		}
		if e.refused == "" {
			alive = append(alive, e)
		}
	}
	return alive
}

// ttl is that of a contender's sessions.
func (s *search) ttl(c *Contender) protocol.Duration {
	setup, err := s.Setup(*c, s.Seed)
	if err != nil {
		return 0
	}
	return setup.Scenario.Timing.TTL
}
