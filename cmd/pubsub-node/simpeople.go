package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"padme/qosmutex/sim"
)

// participantSpec is an entry of participants in a scenario file. What it does not
// set is as for everybody.
type participantSpec struct {
	id, parent string
	priority   int64
	idle       bool
	load       loadSpec
	given      map[string]bool
	line       int
}

func newParticipantSpec(line int) (*participantSpec, *pflag.FlagSet) {
	p := &participantSpec{line: line, given: map[string]bool{}}
	fs := pflag.NewFlagSet("participant", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringVar(&p.id, "id", "", "")
	fs.StringVar(&p.parent, "parent", "", "")
	fs.Int64Var(&p.priority, "priority", 0, "")
	fs.BoolVar(&p.idle, "idle", false, "")
	p.load.flags(fs)
	return p, fs
}

func (s *simSpec) readParticipants(v *yaml.Node) error {
	v = resolve(v)
	if v.Kind != yaml.SequenceNode || len(v.Content) == 0 {
		return at(v, "participants is a list, such as [{id: A}, {id: B, parent: A}]")
	}
	for _, item := range v.Content {
		p, fs := newParticipantSpec(resolve(item).Line)
		err := mapping(item, "a participant", flagNames(fs), func(key, value *yaml.Node) error {
			p.given[key.Value] = true
			return setOption(fs, key.Value, value)
		})
		if err != nil {
			return err
		}
		if p.id == "" {
			return at(item, "a participant needs an id")
		}
		if p.given["every"] && p.given["think"] {
			return at(item, "every and think contradict each other: give one of them")
		}
		s.participants = append(s.participants, *p)
	}
	return nil
}

// rename gives the tree the names of the file and, if that names parents, its
// shape; priorities are then the depth in it.
func (s *simSpec) rename(all []sim.Participant) {
	for i := range all {
		all[i].ID = s.participants[i].id
	}
	if !slices.ContainsFunc(s.participants, func(p participantSpec) bool { return p.parent != "" }) {
		for i := range all[1:] {
			all[i+1].Parent = all[i/s.fanout].ID
		}
		return
	}
	above := map[string]string{}
	for i := range all {
		all[i].Parent = s.participants[i].parent
		all[i].Root = all[i].Parent == ""
		above[all[i].ID] = all[i].Parent
	}
	for i := range all {
		all[i].Priority = 0
		for id := all[i].Parent; id != "" && all[i].Priority < int64(len(all)); id = above[id] {
			all[i].Priority++
		}
	}
}

// change applies the entries of the file to the participants.
func (s *simSpec) change(all []sim.Participant, c *contender) error {
	for i := range s.participants {
		p := &s.participants[i]
		at := slices.IndexFunc(all, func(o sim.Participant) bool { return o.ID == p.id })
		if at < 0 {
			return &lineError{p.line, fmt.Errorf("nobody is named %q%s; without nodes, participants lists all there are", p.id, namesHint(all))}
		}
		s.changeOne(&all[at], p, c)
	}
	var roots []string
	for i := range all {
		if all[i].Parent == "" {
			roots = append(roots, all[i].ID)
		}
	}
	if len(roots) != 1 {
		return fmt.Errorf("participants: %d have no parent (%q): a tree has one root", len(roots), roots)
	}
	return nil
}

func (s *simSpec) changeOne(to *sim.Participant, p *participantSpec, c *contender) {
	if p.parent != "" {
		to.Parent, to.Root = p.parent, false
	}
	if p.given["priority"] {
		to.Priority = p.priority
	}
	open := s.open() && !p.given["think"] || p.given["every"]
	switch load := p.overlay(s.load); {
	case p.idle:
		to.Workload = new(sim.Workload)
	case load != nil:
		w := load.workload(c, open, s.asked())
		to.Workload = &w
	}
}

// overlay is the load of everybody with what p sets; nil if it sets nothing.
func (p *participantSpec) overlay(load loadSpec) *loadSpec {
	own := &p.load
	set := false
	for _, o := range []struct {
		name string
		take func()
	}{
		{"cs", func() { load.cs = own.cs }},
		{"think", func() { load.think = own.think }},
		{"every", func() { load.every = own.every }},
		{"asks-for", func() { load.asksFor = own.asksFor }},
		{"deadlines", func() { load.deadlines = own.deadlines }},
		{"request-priorities", func() { load.requestPriorities = own.requestPriorities }},
		{"give-up", func() { load.giveUp = own.giveUp }},
	} {
		if p.given[o.name] {
			o.take()
			set = true
		}
	}
	if !set {
		return nil
	}
	return &load
}

// namesHint says how participants are called.
func namesHint(all []sim.Participant) string {
	if n := len(all); n > 1 {
		return fmt.Sprintf(": they are %s to %s", all[0].ID, all[n-1].ID)
	}
	return ": there is only " + all[0].ID
}
