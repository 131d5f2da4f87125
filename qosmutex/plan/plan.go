package plan

import (
	"maps"
	"slices"
	"time"

	"padme/qosmutex/sim/stats"
)

// Plan is what Solve recommends, with reasons. Times are in seconds.
type Plan struct {
	// Options are the choice, the runner-up, and what is used today if it is neither. None:
	// all contenders are refused.
	Options []Option `json:"options"`
	// Right is a lower bound of the probability that no other contender is better by more
	// than the zone, from the runs by which was chosen.
	Right float64 `json:"right"`
	// Tied are contenders that these runs do not tell from the choice by any goal.
	Tied     []string  `json:"tied,omitempty"`
	Decided  *Decision `json:"decided,omitempty"` // between choice and runner-up; nil: there is none
	Swapped  bool      `json:"swapped,omitempty"` // with other seeds the runner-up was better: they have changed places
	Flips    []Flip    `json:"flips,omitempty"`
	Refused  []Refusal `json:"refused,omitempty"`
	Compared int       `json:"compared"` // contenders that were simulated
	Runs     int       `json:"runs"`
	Complete bool      `json:"complete"` // false: it was interrupted
}

// Option is a contender with what is predicted of it.
type Option struct {
	Role      string    `json:"role"`  // choice, runner-up or today
	Today     bool      `json:"today"` // it is what is used today
	Name      string    `json:"name"`
	Contender Contender `json:"-"`
	Models    string    `json:"models,omitempty"`
	TTL       string    `json:"ttl,omitempty"`  // if another than the scenario's is recommended
	Same      []string  `json:"same,omitempty"` // contenders that measured the same in every run that they had
	// Figures are means of Seeds runs, with intervals; those of 80 and 120 % of the load in
	// Lighter and Heavier.
	Seeds   int                       `json:"seeds"`
	Figures map[string]stats.Interval `json:"figures"`
	Lighter map[string]stats.Interval `json:"lighter,omitempty"`
	Heavier map[string]stats.Interval `json:"heavier,omitempty"`
	Limits  []Verdict                 `json:"limits,omitempty"`
}

// Verdict says whether a limit is met.
type Verdict struct {
	Requirement string         `json:"requirement"`
	Met         bool           `json:"met"`  // by the mean
	Sure        bool           `json:"sure"` // the limit is outside of the interval
	Value       stats.Interval `json:"value"`
}

// Decision is what told the choice from the runner-up.
type Decision struct {
	Tie        bool           `json:"tie"` // nothing did
	Figure     string         `json:"figure,omitempty"`
	Limit      string         `json:"limit,omitempty"` // that one of them misses
	Difference stats.Interval `json:"difference"`      // by how much the runner-up is worse, seed by seed
}

// Flip is another choice under another condition.
type Flip struct {
	If     string         `json:"if"`
	Name   string         `json:"name"`
	Figure string         `json:"figure"`
	Value  stats.Interval `json:"value"` // of the other choice, then
	Was    stats.Interval `json:"was"`   // of the choice, then
}

// Refusal is a reason for which contenders are out of question.
type Refusal struct {
	Requirement string   `json:"requirement,omitempty"`
	Why         string   `json:"why"`
	Names       []string `json:"names"`
}

// report writes the plan down; f is nil if nothing is left.
func (s *search) report(f *finalists, right float64) *Plan {
	p := &Plan{Right: right}
	if f != nil {
		p.Flips = s.flips(f)
		p.Swapped = f.swapped
		p.Tied = names(f.tied)
		if f.runnerUp != nil {
			d := s.decide(f, 1)
			p.Decided = &d
		}
		for i, e := range f.all() {
			role := "today"
			switch {
			case i == 0:
				role = "choice"
			case e == f.runnerUp:
				role = "runner-up"
			}
			p.Options = append(p.Options, s.option(e, role))
		}
	}
	p.Refused = s.refusals(f)
	for _, e := range s.entries {
		if len(e.samples) > 0 {
			p.Compared++
		}
	}
	p.Runs, p.Complete = s.runs, s.ctx.Err() == nil
	return p
}

// option is what is predicted of a contender: from fresh runs, or if there was no time for
// two of them from those by which was chosen.
func (s *search) option(e *entry, role string) Option {
	o := Option{Role: role, Today: e == s.entries[0], Name: e.String(), Contender: *e.Contender, Same: names(e.same)}
	if !e.Algorithm.Static {
		o.Models = e.Models.String()
	}
	if e.TTL > 0 {
		o.TTL = time.Duration(e.TTL).String()
	}
	samples := made(s.measured(e, 1))
	o.Seeds, o.Figures = len(samples), intervals(samples)
	for _, who := range []string{"holder", "root"} {
		maps.Copy(o.Figures, intervals(s.fresh[freshKey{e, 1, who}]))
	}
	o.Lighter, o.Heavier = intervals(s.fresh[freshKey{e, lighter, ""}]), intervals(s.fresh[freshKey{e, heavier, ""}])
	for i := range s.Requirements {
		if r := &s.Requirements[i]; r.fact == noFact {
			o.Limits = append(o.Limits, r.verdict(o.Figures))
		}
	}
	return o
}

func names(all []*entry) (names []string) {
	for _, e := range all {
		names = append(names, e.String())
	}
	return names
}

// verdict judges a limit by means.
func (r *Requirement) verdict(figures map[string]stats.Interval) Verdict {
	v, known := figures[r.figure]
	met := known && r.excess(v.Mean) == 0
	edge := v.Mean + v.Half
	if met == r.above {
		edge = v.Mean - v.Half
	}
	return Verdict{r.text, met, known && (r.excess(edge) == 0) == met, v}
}

// intervals are those of every figure of several runs; of one alone the half is 0.
func intervals(samples []Figures) map[string]stats.Interval {
	all := map[string]stats.Interval{}
	for _, f := range samples {
		for name := range f {
			if _, done := all[name]; done {
				continue
			}
			if v := values(samples, name); len(v) > 1 {
				all[name] = stats.IntervalOf(v, confidence, 1)
			} else {
				all[name] = stats.Interval{Mean: v[0]}
			}
		}
	}
	return all
}

// refusals group the contenders that are out of question by the reason.
func (s *search) refusals(f *finalists) (all []Refusal) {
	add := func(requirement, why, name string) {
		i := slices.IndexFunc(all, func(r Refusal) bool { return r.Requirement == requirement && r.Why == why })
		if i < 0 {
			i = len(all)
			all = append(all, Refusal{Requirement: requirement, Why: why})
		}
		all[i].Names = append(all[i].Names, name)
	}
	for _, e := range s.entries {
		switch {
		case len(e.by) > 0:
			add(e.by[0], e.refused, e.String())
		case e.refused != "":
			add("", e.refused, e.String())
		case f != nil && len(e.samples) > 0 && s.excess(f.choice.samples, "") == 0:
			for i := range s.limits {
				if r := &s.limits[i]; r.excess(mean(e.samples, r.goal())) > 0 {
					add(r.text, "measured otherwise", e.String())
					break
				}
			}
		}
	}
	return all
}
