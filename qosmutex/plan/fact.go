package plan

import (
	"slices"
	"strings"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// fact is what is known of a contender in a scenario without running it.
type fact uint8

const (
	noFact         fact = iota
	survivesRoot        // or server: somebody else goes on in its place
	survivesHolder      // others enter after a holder has died
	survivesMember      // or after any other participant has, whatever it did
	keepsDeadlines      // what it admits it grants in time, and it refuses the others at once
	starvesNobody       // a request is overtaken a bounded number of times
)

var survivals = map[string]fact{"root": survivesRoot, "holder": survivesHolder, "member": survivesMember}

// unfit reports whether an algorithm is there to be seen failing (one deadlocks, one lets two
// in at once), or is a variant for a figure of its paper, such as edf-token-b1.
func unfit(name string) bool {
	return name == "maekawa-naive" || name == "voting-forgetful" || strings.HasPrefix(name, "edf-") && strings.Contains(name, "-b")
}

// unordered are static algorithms under which a request may wait forever while others of the
// same priority come.
var unordered = []string{"voting", "level-distance"}

// byDeadline reports whether a contender plans with deadlines.
func byDeadline(c *Contender) bool {
	if c.Algorithm.Static {
		return strings.HasPrefix(c.Algorithm.Name, "edf-")
	}
	return c.Models.Priority == protocol.Deadline
}

const fixedMembers = "no algorithm with a fixed list of members survives that"

// refuse says why a contender does not meet a fact in its scenario; "" if it does.
func (f fact) refuse(c *Contender, sc *sim.Scenario) string {
	static := c.Algorithm.Static
	switch f {
	case survivesRoot:
		if !static && candidates(sc) < 2 {
			return "in a tree that is given nobody else can be the root: leave out parents and --tree static"
		}
		fallthrough
	case survivesHolder, survivesMember:
		if static {
			return fixedMembers
		}
	case keepsDeadlines:
		if !byDeadline(c) {
			return "it does not refuse what it cannot grant in time"
		}
	case starvesNobody:
		return starves(c, sc)
	}
	return ""
}

// candidates is how many participants can be the root.
func candidates(sc *sim.Scenario) (n int) {
	for i := range sc.Participants {
		if sc.Participants[i].Candidate {
			n++
		}
	}
	return n
}

// starves says who may wait forever under c.
func starves(c *Contender, sc *sim.Scenario) string {
	byLevel := c.Algorithm.Name == "central" || !c.Algorithm.Static && c.Models.Priority == protocol.Level
	switch {
	case byDeadline(c) && len(sc.Workload.Deadlines) == 0:
		return "requests without a deadline come last"
	case byDeadline(c):
		return ""
	case slices.Contains(unordered, c.Algorithm.Name):
		return "a request may wait forever while others come"
	case byLevel && len(priorities(sc)) > 1:
		return "a less important request may wait forever"
	}
	return ""
}

// priorities are those that somebody asks with.
func priorities(sc *sim.Scenario) (all []int64) {
	add := func(some ...int64) {
		for _, p := range some {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	of := map[string]int64{}
	for i := range sc.Participants {
		p, w := &sc.Participants[i], &sc.Workload
		of[p.ID] = p.Priority
		if p.Workload != nil {
			w = p.Workload
		}
		switch {
		case len(w.Resources) == 0:
		case len(w.Priorities) > 0:
			add(w.Priorities...)
		default:
			add(p.Priority)
		}
	}
	for i := range sc.Arrivals {
		if a := &sc.Arrivals[i]; a.Fixed {
			add(a.Priority)
		} else {
			add(of[a.Node])
		}
	}
	return all
}

// deadlines reports whether any request has one.
func deadlines(sc *sim.Scenario) bool {
	some := len(sc.Workload.Deadlines) > 0
	for i := range sc.Participants {
		w := sc.Participants[i].Workload
		some = some || w != nil && len(w.Deadlines) > 0
	}
	for i := range sc.Arrivals {
		some = some || sc.Arrivals[i].Within > 0
	}
	return some
}
