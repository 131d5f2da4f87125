package caspaxos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// clone copies a machine deeply, but for what is never changed.
func (m *Machine) clone() *Machine {
	c := *m
	c.out = nil
	c.slots = make(map[string]*slot, len(m.slots))
	for key, s := range m.slots {
		copied := *s
		c.slots[key] = &copied
	}
	c.ops = make([]*op, len(m.ops))
	for i, o := range m.ops {
		copied := *o
		copied.items = slices.Clone(o.items)
		c.ops[i] = &copied
	}
	c.enrolled, c.owing = maps.Clone(m.enrolled), maps.Clone(m.owing)
	c.peers = make(map[string]*peer, len(m.peers))
	for id, p := range m.peers {
		copied := *p
		c.peers[id] = &copied
	}
	if m.install != nil {
		c.install = &install{m.install.again, m.install.repeats, slices.Clone(m.install.sources), maps.Clone(m.install.merged)}
	}
	return &c
}

// state names everything that decides what a machine will do, but instants: in the
// model checker's world anything may be late.
func (m *Machine) state() string {
	var b strings.Builder
	number := func(c *Config) uint32 {
		if c == nil {
			return 0
		}
		return c.Number
	}
	fmt.Fprint(&b, m.opts.Boot>>32, m.instance, number(m.config), number(m.next), m.seen, m.ceiling, m.floor, m.quiet > m.now, m.lastSeq, m.refusal)
	if m.next != nil {
		fmt.Fprint(&b, m.next.IDs()) // two may be proposed
	}
	for _, key := range slices.Sorted(maps.Keys(m.slots)) {
		s := m.slots[key]
		fmt.Fprint(&b, "|", key, s.promised, s.Accepted, s.State.Stamp, s.State.Firm, s.onDisk)
	}
	for _, o := range m.ops {
		fmt.Fprint(&b, "/", o.id, o.phase, o.seq, o.ballot, o.heard, o.attempts, o.tried)
		for i := range o.writes {
			fmt.Fprint(&b, " ", o.writes[i].Old.Counter, o.writes[i].Old.Nonce, o.writes[i].Nonce)
		}
		for i := range o.items {
			it := &o.items[i]
			fmt.Fprint(&b, " ", it.best.Accepted, it.best.State.Stamp, it.same, it.write, it.next.Stamp, it.outcome.Conflict, it.outcome.Unknown)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.enrolled)) {
		fmt.Fprint(&b, "+", id, m.enrolled[id].instance)
	}
	for _, id := range slices.Sorted(maps.Keys(m.peers)) {
		fmt.Fprint(&b, "%", id, m.peers[id].run.Boot>>32)
	}
	if m.install != nil {
		fmt.Fprint(&b, "!", m.install.sources)
		for _, key := range slices.Sorted(maps.Keys(m.install.merged)) {
			s := m.install.merged[key]
			fmt.Fprint(&b, key, s.Accepted, s.State.Stamp)
		}
	}
	return b.String()
}
