package plan

import (
	"context"
	"runtime"
	"strings"
	"sync"

	"padme/qosmutex/sim"
)

// Problem is what is to be chosen.
type Problem struct {
	// Contenders are the choices, the first of which is today's; see [Contenders].
	Contenders   []Contender
	Requirements []Requirement
	// Goals decide in their order: a later one where the earlier ones cannot tell. None: the
	// least wait.p99, then the least messages.
	Goals []Goal
	// Setup makes a run. With one seed all contenders must meet the same requests, as those
	// of a sim.Workload do. It is called by several goroutines at once.
	Setup func(c Contender, seed uint64) (Setup, error)
	Seed  uint64 // from which all runs draw theirs
	// Runs are made at most; 0: no limit but Spent.
	Runs int
	// Spent, if set, is the share of a budget in time that is used up.
	Spent func() float64
	// Zone is a share of a figure by which two may differ without mattering: 0.02 is 2 %.
	Zone float64
	// Progress, if set, is called after each run, by one goroutine at a time.
	Progress func(Progress)
}

// Progress is how far a plan is.
type Progress struct {
	Phase string // what is being done
	Left  int    // contenders among which it chooses
	Runs  int    // so far
}

// entry is a contender and what is known of it.
type entry struct {
	*Contender
	place   int       // in Problem.Contenders
	samples []Figures // by seed; nil: not run
	refused string    // why it is out of question; "": it is not
	by      []string  // the requirements that refuse it; none: it cannot be simulated
	same    []*entry  // others that measured the same in every run that they had
}

// search is the work on a problem.
type search struct {
	*Problem
	ctx     context.Context
	entries []*entry
	goals   []Goal
	limits  []Requirement
	phase   string
	left    int
	runs    int
	fresh   map[freshKey][]Figures // runs with other seeds than those it chose by
}

// job is one run to be made.
type job struct {
	entry *entry
	trial trial
	done  func(Figures)
}

// over reports whether a share of the budget is used up, or the context has ended.
func (s *search) over(share float64) bool {
	return s.ctx.Err() != nil || s.Spent != nil && s.Spent() >= share || s.Runs > 0 && float64(s.runs) >= share*float64(s.Runs)
}

// do makes runs on all processors, until that share of the budget is used up; whole reports
// whether all were made. Which ones a budget of runs allows does not depend on how fast they are.
func (s *search) do(jobs []job, share float64) (whole bool) {
	if s.Runs > 0 {
		if most := int(share*float64(s.Runs)) - s.runs; len(jobs) > max(0, most) {
			jobs = jobs[:max(0, most)]
			defer func() { whole = false }()
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, done := 0, 0
	take := func() (j *job) {
		mu.Lock()
		defer mu.Unlock()
		if next < len(jobs) && s.ctx.Err() == nil && (s.Spent == nil || s.Spent() < share) {
			j = &jobs[next]
			next++
		}
		return j
	}
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for j := take(); j != nil; j = take() {
				figures, err := s.run(s.ctx, j.entry.Contender, j.trial)
				mu.Lock()
				done += s.took(j, figures, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return done == len(jobs)
}

// took takes what a run measured.
func (s *search) took(j *job, figures Figures, err error) int {
	switch {
	case err == nil:
		j.done(figures)
	case s.ctx.Err() != nil:
		return 0
	default: // of several errors that of the first contender's first seed would do as well
		j.entry.refuse("", cannot(j.entry.Contender, err))
	}
	s.runs++
	if s.Progress != nil {
		s.Progress(Progress{s.phase, s.left, s.runs})
	}
	return 1
}

// refuse notes a requirement that a contender does not meet, and why the first one.
func (e *entry) refuse(by, why string) {
	if e.refused == "" {
		e.refused = why
	}
	if by != "" {
		e.by = append(e.by, by)
	}
}

// cannot is why a contender that the simulator refuses is out of question, without its name, as
// others may be refused alike.
func cannot(c *Contender, err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimPrefix(text, sim.ErrScenario.Error()+": ")
	return "it cannot be simulated: " + strings.ReplaceAll(text, c.Algorithm.Name+" ", "it ")
}
