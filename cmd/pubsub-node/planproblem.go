package main

import (
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"padme/qosmutex/papers"
	"padme/qosmutex/plan"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// problem is what the flags and the file ask for.
func (f *planFlags) problem(fs *pflag.FlagSet) (*plan.Problem, error) {
	s := f.spec
	fs.Visit(func(flag *pflag.Flag) { s.given[flag.Name] = true })
	if f.scenario != "" {
		if err := s.readFile(f.scenario, fs); err != nil {
			return nil, wrong(err)
		}
	}
	switch {
	case f.runs < 0 || fs.Changed("runs") && f.runs < leastRuns:
		return nil, usageError("--runs %d: give at least %d", f.runs, leastRuns)
	case f.budget <= 0:
		return nil, usageError("--budget %v: it must be positive", f.budget)
	case fs.Changed("verify"):
		if err := f.verifiable(); err != nil {
			return nil, err
		}
	}
	today, err := s.today()
	if err != nil {
		return nil, err
	}
	all := plan.Contenders(today, papers.Algorithms(), s.nodes)
	if s.namesParents() {
		all = sameTree(all)
	}
	s.fixPriorities()
	p := &plan.Problem{Contenders: all, Setup: s.setup, Seed: s.seed, Runs: f.runs, Zone: f.zone.value}
	if p.Requirements, err = f.requirements(); err != nil {
		return nil, err
	}
	if p.Goals, err = f.goals(); err != nil {
		return nil, err
	}
	if _, err := s.setup(all[0], s.seed); err != nil { // what is wrong for all is wrong in the file
		return nil, wrong(err)
	}
	return p, nil
}

// fixPriorities gives participants that have none the depth that sim would give them, whatever
// the fan-out of a choice: the workload is the same for all.
func (s *simSpec) fixPriorities() {
	if len(s.priorities) > 0 || s.namesParents() || s.nodes < 1 || s.fanout < 1 {
		return
	}
	for _, p := range sim.Tree(s.nodes, s.fanout, false) {
		s.priorities = append(s.priorities, p.Priority)
	}
}

// leastRuns is for two contenders to be told apart.
const leastRuns = 10

// today is what is used now.
func (s *simSpec) today() (c plan.Contender, err error) {
	if c.Algorithm, err = algorithmNamed(s.algorithm); err != nil {
		return c, usageError("%w", err)
	}
	if s.given["models"] {
		if c.Models, err = modelsNamed(s.models); err != nil {
			return c, usageError("%w", err)
		}
	}
	if !plan.HasTree(c.Algorithm) {
		return c, nil
	}
	const usual = 8
	if c.Fanout = usual; s.given["fanout"] {
		c.Fanout = s.fanout
	}
	return c, nil
}

// sameTree leaves the tree as it is given.
func sameTree(all []plan.Contender) (kept []plan.Contender) {
	for _, c := range all {
		c.Fanout = 0
		if !slices.ContainsFunc(kept, func(o plan.Contender) bool { return o.String() == c.String() }) {
			kept = append(kept, c)
		}
	}
	return kept
}

// setup makes what the simulator runs of a contender.
func (s *simSpec) setup(p plan.Contender, seed uint64) (plan.Setup, error) {
	other := *s
	other.seed = seed
	if p.Fanout > 0 {
		other.fanout = p.Fanout
	}
	if p.TTL > 0 {
		other.ttl, other.given = duration(p.TTL), maps.Clone(s.given)
		other.given["ttl"] = true
	}
	c := contender{p.Algorithm, p.Models}
	sc, err := other.build(&c)
	if err != nil {
		return plan.Setup{}, err
	}
	algorithm, _ := other.channels(&c)
	return plan.Setup{Algorithm: algorithm, Scenario: sc, Prepare: func(run *sim.Sim, sc *sim.Scenario) { other.plan(run, sc) }}, nil
}

func (f *planFlags) requirements() (all []plan.Requirement, err error) {
	for _, text := range f.require {
		some, err := plan.ParseRequirements(text)
		if err != nil {
			return nil, planError(err)
		}
		all = append(all, some...)
	}
	return all, nil
}

func (f *planFlags) goals() (all []plan.Goal, err error) {
	names := f.then
	switch {
	case f.minimize != "" && f.maximize != "":
		return nil, usageError("--minimize and --maximize contradict each other: give one of them, and the other figure to --then")
	case f.minimize+f.maximize != "":
		names = append([]string{f.minimize + f.maximize}, names...)
	case len(names) > 0:
		return nil, usageError("--then needs a goal before it: give --minimize or --maximize")
	}
	for i, name := range names {
		g, err := plan.ParseGoal(name)
		switch {
		case err != nil:
			return nil, planError(err)
		case i == 0 && f.minimize != "" && g.Most():
			return nil, usageError("--minimize %s: more of it is better: give --maximize %s", name, name)
		case i == 0 && f.maximize != "" && !g.Most():
			return nil, usageError("--maximize %s: less of it is better: give --minimize %s", name, name)
		}
		all = append(all, g)
	}
	return all, nil
}

// ttlOf is the time-to-live that a choice must be given; 0 if it is the usual one.
func (s *simSpec) ttlOf(c *plan.Contender) protocol.Duration {
	switch {
	case c.TTL > 0:
		return c.TTL
	case s.given["ttl"]:
		return protocol.Duration(s.ttl)
	}
	return 0
}
