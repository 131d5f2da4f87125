package plan

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// What is predicted is measured with other seeds than those by which was chosen: the best of
// many is partly the luckiest.

const (
	freshSeeds = 1 << 32 // the first of the other seeds, above that of the problem
	freshRuns  = 20
	drills     = 8
	lighter    = 0.8
	heavier    = 1.2
)

// freshKey is a kind of runs of a contender.
type freshKey struct {
	entry *entry
	load  float64
	crash string
}

// finalists are what the plan shows.
type finalists struct {
	choice, runnerUp, today *entry // the runner-up may be nil
	tied                    []*entry
	swapped                 bool // with other seeds the runner-up was better
}

// all are different ones, the choice first.
func (f *finalists) all() (all []*entry) {
	for _, e := range []*entry{f.choice, f.runnerUp, f.today} {
		if e != nil && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

// check measures the best, the runner-up and today's choice again.
func (s *search) check(last []*entry) *finalists {
	s.phase = "checking"
	f := &finalists{today: s.entries[0]}
	f.choice, f.tied = s.best(last, s.goals, func(d *difference) bool { return d.near() || d.wrong() > 1-confidence })
	if others := without(last, f.choice); len(others) > 0 {
		f.runnerUp, _ = s.best(others, s.goals, (*difference).near)
	}
	s.tuneTTL(f)
	shown := f.all()
	s.left = len(shown)
	n := s.freshRuns(len(shown))
	s.refresh(shown, 1, "", n, checkingEnds)
	if f.runnerUp != nil {
		if d := s.decide(f, 1); !d.Tie && d.Difference.Mean < 0 {
			f.choice, f.runnerUp, f.swapped, f.tied = f.runnerUp, f.choice, true, nil
		}
	}
	for _, who := range []string{"holder", "root"} {
		s.refresh(slices.DeleteFunc(slices.Clone(shown), func(e *entry) bool { return e.Algorithm.Static }), 1, who, min(n, drills), checkingEnds)
	}
	for _, load := range []float64{lighter, heavier} {
		s.refresh(shown, load, "", (n+1)/2, checkingEnds)
	}
	return f
}

// freshRuns is how many the budget has room for.
func (s *search) freshRuns(shown int) int {
	if s.Runs == 0 {
		return freshRuns
	}
	room := (int(checkingEnds*float64(s.Runs)) - s.runs) / shown
	n := room / 4 // with this load, with two others half as many, and two drills
	if n > drills {
		n = (room - 2*drills) / 2
	}
	return max(2, min(freshRuns, n))
}

// refresh runs contenders with n other seeds, seed by seed.
func (s *search) refresh(all []*entry, load float64, crash string, n int, share float64) {
	var jobs []job
	for k := range n {
		for _, e := range all {
			key := freshKey{e, load, crash}
			if k >= len(s.fresh[key]) {
				s.fresh[key] = append(s.fresh[key], nil)
			}
			if s.fresh[key][k] == nil {
				jobs = append(jobs, job{e, trial{seed: s.Seed + freshSeeds + uint64(k), load: load, crash: crash}, func(f Figures) { s.fresh[key][k] = f }})
			}
		}
	}
	s.do(jobs, share)
}

// measured are the runs with other seeds, or if there was no time for two those by which was
// chosen.
func (s *search) measured(e *entry, load float64) []Figures {
	if fresh := s.fresh[freshKey{e, load, ""}]; load != 1 || len(made(fresh)) > 1 {
		return fresh
	}
	return e.samples
}

// decide compares choice and runner-up at a load: by the first limit that one of them misses,
// else by the first goal that tells them apart.
func (s *search) decide(f *finalists, load float64) Decision {
	a, b := s.measured(f.choice, load), s.measured(f.runnerUp, load)
	if x, y := s.excess(a, ""), s.excess(b, ""); (x > 0) != (y > 0) {
		for i := range s.limits {
			if g := s.limits[i].goal(); s.limits[i].excess(mean(a, g)) != s.limits[i].excess(mean(b, g)) {
				d := differ(b, a, g, 0)
				return Decision{Figure: g.Figure, Limit: s.limits[i].text, Difference: d.interval()}
			}
		}
	}
	return s.byGoals(a, b)
}

func (s *search) byGoals(a, b []Figures) Decision {
	for _, g := range s.goals {
		if d := differ(b, a, g, s.Zone); !d.tie() {
			return Decision{Figure: g.Figure, Difference: d.interval()}
		}
	}
	return Decision{Tie: true}
}

// tuneTTL takes the longest time-to-live with which the required recovery is met: a longer one
// costs less upkeep and ends no session by accident. What else is measured depends little on it.
func (s *search) tuneTTL(f *finalists) {
	if f.choice.Algorithm.Static {
		return
	}
	least := math.Inf(1)
	for i := range s.Requirements {
		r := &s.Requirements[i]
		if !r.drilled() {
			continue
		}
		who := r.figure[len("recovery."):]
		s.refresh([]*entry{f.choice}, 1, who, drills, checkingEnds)
		if all := values(s.fresh[freshKey{f.choice, 1, who}], r.figure); len(all) > 0 && slices.Max(all) > 0 {
			least = min(least, r.limit/slices.Max(all))
		}
	}
	if math.IsInf(least, 1) {
		return
	}
	const slack = 0.95 // a drill more may take longer
	ttl := roundDown(protocol.Duration(slack * least * float64(s.ttl(f.choice.Contender))))
	f.choice = s.withTTL(f.choice, ttl)
	if f.runnerUp != nil && !f.runnerUp.Algorithm.Static {
		f.runnerUp = s.withTTL(f.runnerUp, ttl)
	}
}

// withTTL is a contender with another time-to-live, if it can have it.
func (s *search) withTTL(e *entry, ttl protocol.Duration) *entry {
	c := *e.Contender
	c.TTL = min(ttl, protocol.MaxTTL)
	if _, err := s.Setup(c, s.Seed); err != nil {
		return e
	}
	return &entry{Contender: &c, place: e.place, samples: e.samples, same: e.same}
}

// roundDown leaves two digits.
func roundDown(d protocol.Duration) protocol.Duration {
	unit := protocol.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return d / unit * unit
}
