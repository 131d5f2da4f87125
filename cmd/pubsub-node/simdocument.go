package main

import (
	"time"

	"padme/qosmutex/protocol"
)

// simDocument is a scenario file.
type simDocument struct {
	Algorithm         string                `json:"algorithm"`
	Models            string                `json:"models,omitempty"`
	Nodes             int                   `json:"nodes,omitempty"`
	Fanout            int                   `json:"fanout"`
	Tree              string                `json:"tree,omitempty"`
	TTL               string                `json:"ttl,omitempty"`
	Priorities        []int64               `json:"priorities,omitempty"`
	Latency           any                   `json:"latency"`
	CS                string                `json:"cs,omitempty"`
	Think             string                `json:"think,omitempty"`
	Every             string                `json:"every,omitempty"`
	Duration          string                `json:"duration"`
	Seed              uint64                `json:"seed"`
	FIFO              bool                  `json:"fifo"`
	Loss              float64               `json:"loss"`
	Duplicate         float64               `json:"duplicate"`
	Drift             float64               `json:"drift"`
	Deadlines         []string              `json:"deadlines,omitempty"`
	RequestPriorities []int64               `json:"request-priorities,omitempty"`
	GiveUp            bool                  `json:"give-up,omitempty"`
	Trace             string                `json:"trace,omitempty"`
	Resources         []string              `json:"resources,omitempty"`
	AsksFor           []string              `json:"asks-for,omitempty"`
	Participants      []participantDocument `json:"participants,omitempty"`
	Faults            []faultDocument       `json:"faults,omitempty"`
}

type participantDocument struct {
	ID                string   `json:"id"`
	Parent            string   `json:"parent,omitempty"`
	Priority          *int64   `json:"priority,omitempty"`
	Idle              bool     `json:"idle,omitempty"`
	CS                string   `json:"cs,omitempty"`
	Think             string   `json:"think,omitempty"`
	Every             string   `json:"every,omitempty"`
	Deadlines         []string `json:"deadlines,omitempty"`
	RequestPriorities []int64  `json:"request-priorities,omitempty"`
	GiveUp            bool     `json:"give-up,omitempty"`
	AsksFor           []string `json:"asks-for,omitempty"`
}

type faultDocument struct {
	At     string     `json:"at"`
	What   string     `json:"what"`
	Node   []string   `json:"node,omitempty"`
	Groups [][]string `json:"groups,omitempty"`
	To     string     `json:"to,omitempty"`
}

// document is the scenario as it was run.
func (s *simSpec) document(o *outcome) simDocument {
	c := &o.contender
	d := simDocument{
		Algorithm: c.algorithm.Name, Nodes: s.nodes, Fanout: s.fanout, Priorities: s.priorities, Latency: s.latency.text,
		Duration: s.duration.String(), Seed: s.seed, FIFO: s.fifo, Loss: s.loss.value, Duplicate: s.duplicate.value,
		Drift: s.drift.value, Deadlines: texts(s.load.deadlines), RequestPriorities: s.load.requestPriorities,
		GiveUp: s.load.giveUp, Trace: s.trace, Resources: s.resources, AsksFor: s.load.asksFor,
	}
	if c.hasModels() {
		d.Models, d.Tree, d.TTL = c.models.String(), string(s.treeKind()), time.Duration(o.scenario.Timing.TTL).String()
	}
	if len(s.participants) == 0 {
		d.Priorities = nil
		for i := range o.scenario.Participants {
			d.Priorities = append(d.Priorities, o.scenario.Participants[i].Priority)
		}
	}
	if s.loaded() {
		d.CS, d.Think = s.load.cs.text, s.load.think.text
	}
	if s.open() {
		d.Think, d.Every = "", s.load.every.text
	}
	if s.matrix != nil {
		var rows [][]string
		for _, row := range s.matrix {
			rows = append(rows, texts(row))
		}
		d.Latency = rows
	}
	if len(s.participants) > 0 && !s.given["nodes"] {
		d.Nodes = 0
	}
	for i := range s.participants {
		d.Participants = append(d.Participants, s.participants[i].document())
	}
	for i := range s.faults {
		f := &s.faults[i]
		d.Faults = append(d.Faults, faultDocument{f.at.String(), f.what, f.nodes, f.groups, f.value})
	}
	return d
}

func (p *participantSpec) document() participantDocument {
	d := participantDocument{
		ID: p.id, Parent: p.parent, Idle: p.idle, CS: p.load.cs.text, Think: p.load.think.text, Every: p.load.every.text,
		Deadlines: texts(p.load.deadlines), RequestPriorities: p.load.requestPriorities, GiveUp: p.load.giveUp,
		AsksFor: p.load.asksFor,
	}
	if p.given["priority"] {
		d.Priority = &p.priority
	}
	return d
}

func texts(times []protocol.Duration) []string {
	var all []string
	for _, t := range times {
		all = append(all, time.Duration(t).String())
	}
	return all
}
