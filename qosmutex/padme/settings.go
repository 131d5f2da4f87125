package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// propose asks for settings, if others are in force. The root has the record of the
// topic changed, and then sends the change down the tree. What is wanted already does not
// go up again: in a cycle of parents it would go round until that breaks.
func (m *Machine) propose(p *protocol.Proposal) {
	s := m.settings
	switch {
	case !s.Apply(p):
	case m.role != protocol.Root:
		if m.wanted == nil || !m.wanted.Same(&p.Settings) || m.wanted.Change != p.Change {
			m.wanted = p // until any newer settings arrive
			m.sendWanted()
		}
	case m.isFixedRoot:
		m.putInForce(&s)
		m.serveAll()
	default:
		m.out.Proposed = p
	}
}

// declare asks for the parts of the settings that name somebody: in the place of defaults,
// or, as a change, of what was declared, too.
func (m *Machine) declare(l *protocol.Lease, change bool) error {
	if l == nil {
		return m.badInput("no settings")
	}
	if err := l.Validate(); err != nil {
		return m.badInput(err.Error())
	}
	s := l.Settings
	s.Resources = sortedSet(s.Resources)
	m.propose(&protocol.Proposal{Settings: s, Change: change})
	return nil
}

func (m *Machine) onPropose(msg *protocol.Message) error {
	if err := msg.Settings.Validate(); err != nil {
		return m.invalid(msg, err.Error())
	}
	p := protocol.Proposal{Settings: msg.Settings, Change: msg.Flags&protocol.FlagChange != 0}
	p.Resources = sortedSet(p.Resources)
	m.propose(&p)
	return nil
}

// configure puts the settings of the record in force, at the root.
func (m *Machine) configure(s *protocol.Settings) error {
	if m.role != protocol.Root || m.isFixedRoot {
		return m.badInput("not a root under a lease")
	}
	m.putInForce(s)
	m.serveAll()
	return nil
}

// putInForce has the root go by other settings.
func (m *Machine) putInForce(s *protocol.Settings) {
	m.adoptSettings(s)
	for _, name := range m.settings.Resources {
		m.resource(name)
	}
	m.refuseUndeclared()
}

func (m *Machine) sendWanted() {
	if m.wanted == nil || m.parent == nil {
		return
	}
	msg := m.emitOn(m.parent, protocol.KindPropose)
	msg.Settings = m.wanted.Settings
	if m.wanted.Change {
		msg.Flags |= protocol.FlagChange
	}
	m.commit(m.parent, msg)
}

// adoptSettings puts newer settings in force here and passes them on.
func (m *Machine) adoptSettings(s *protocol.Settings) {
	if s.Version <= m.settings.Version {
		return
	}
	old, before := m.settings, m.ordering()
	m.settings = *s
	m.settings.Resources = sortedSet(s.Resources)
	if slices.Equal(old.Resources, m.settings.Resources) {
		m.settings.Resources = old.Resources // messages under way share it
	}
	m.wanted = nil
	m.out.Changed = true
	if m.ordering() != before {
		for q := range m.eachQueue {
			m.reorder(q, old.Models.Priority != s.Models.Priority)
		}
	}
	for _, l := range m.children {
		msg := m.emitOn(l, protocol.KindSettings)
		msg.Settings = m.settings
		m.commit(l, msg)
	}
	if !m.retains() {
		m.giveBack(0)
	}
	if m.parent != nil { // the new order, or Forward, may bring others up
		m.nameQueues()
	}
}

// reorder puts a queue into the order of new models. Under another Priority model what waits
// has its patience again.
func (m *Machine) reorder(q *queue, patience bool) {
	for _, e := range q.waiting {
		if patience {
			m.renew(e, m.rivals(q)-1)
		}
	}
	q.sort(m.ordering())
}
