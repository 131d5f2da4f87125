package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"padme/qosmutex/sim"
)

// faultSpec is an entry of faults in a scenario file.
type faultSpec struct {
	at     duration
	what   string
	nodes  []string
	groups [][]string
	value  string // of priority and models
	line   int
}

// faultKinds are what can happen; to whom, unless to the network.
var faultKinds = []struct {
	name string
	to   func(*sim.Sim, string) // each of the nodes
	// set is to, with a value, which has been checked.
	set   func(s *sim.Sim, id, value string)
	net   func(*sim.Sim, [][]string)
	split bool // needs groups
	loses bool // messages
}{
	{name: "crash", to: (*sim.Sim).Crash, loses: true},
	{name: "restart", to: (*sim.Sim).Restart},
	{name: "pause", to: (*sim.Sim).Pause},
	{name: "resume", to: (*sim.Sim).Resume},
	{name: "cut", to: (*sim.Sim).Cut, loses: true},
	{name: "reconnect", to: (*sim.Sim).Reconnect, loses: true},
	{name: "partition", net: func(s *sim.Sim, groups [][]string) { s.Partition(groups...) }, split: true, loses: true},
	{name: "priority", set: func(s *sim.Sim, id, value string) {
		p, _ := strconv.ParseInt(value, 10, 64)
		s.SetPriority(id, p)
	}},
	{name: "models", set: func(s *sim.Sim, id, value string) {
		m, _ := modelsNamed(value)
		s.SetModels(id, m)
	}},
	{name: "heal", net: func(s *sim.Sim, _ [][]string) { s.Heal() }},
}

func faultNames() []string {
	var names []string
	for i := range faultKinds {
		names = append(names, faultKinds[i].name)
	}
	return names
}

// kind is the place of f in faultKinds; -1 before it is checked, if there is none.
func (f *faultSpec) kind() int { return slices.Index(faultNames(), f.what) }

func (f *faultSpec) loses() bool { return faultKinds[f.kind()].loses }

// check says what is wrong with f in its scenario.
func (f *faultSpec) check(sc *sim.Scenario, c *contender) error {
	wrong := func(format string, args ...any) error { return &lineError{f.line, fmt.Errorf(format, args...)} }
	k := &faultKinds[f.kind()]
	if err := f.checkValue(c); err != nil {
		return wrong("%w", err)
	}
	switch {
	case int64(f.at) > int64(sc.Duration):
		return wrong("the fault comes at %v, after the end: raise duration", &f.at)
	case k.net == nil && len(f.nodes) == 0:
		return wrong("%s needs a node", f.what)
	case k.net == nil && len(f.groups) > 0 || k.net != nil && len(f.nodes) > 0 || !k.split && len(f.groups) > 0:
		return wrong("groups are for partition, node is for what happens to a participant")
	case k.split && len(f.groups) == 0:
		return wrong("partition needs groups, such as [[A, B], [C]]")
	}
	for _, id := range slices.Concat(append(f.groups, f.nodes)...) {
		if !slices.ContainsFunc(sc.Participants, func(p sim.Participant) bool { return p.ID == id }) {
			return wrong("nobody is named %q%s", id, namesHint(sc.Participants))
		}
	}
	return nil
}

func (f *faultSpec) happen(s *sim.Sim) {
	k := &faultKinds[f.kind()]
	if k.net != nil {
		k.net(s, f.groups)
		return
	}
	for _, id := range f.nodes {
		if k.set != nil {
			k.set(s, id, f.value)
		} else {
			k.to(s, id)
		}
	}
}

// checkValue judges to what a priority or the models change.
func (f *faultSpec) checkValue(c *contender) error {
	if f.kind() < 0 || faultKinds[f.kind()].set == nil {
		if f.value != "" {
			return errors.New("to is for priority and models")
		}
		return nil
	}
	if f.what == "priority" {
		if _, err := strconv.ParseInt(f.value, 10, 64); err != nil {
			return fmt.Errorf("to: %q: priority needs a whole number", f.value)
		}
		return nil
	}
	if !c.hasModels() {
		return fmt.Errorf("models are PADME's, %s has none", c.algorithm.Name)
	}
	if _, err := modelsNamed(f.value); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	return nil
}
