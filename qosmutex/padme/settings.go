package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// propose asks for other models. The root decides, numbers the change and sends
// it down the tree. What is wanted already does not go up again: in a cycle of
// parents it would go round until that breaks.
func (m *Machine) propose(models protocol.Models) {
	if m.role != protocol.Root {
		if m.wanted == nil || *m.wanted != models {
			m.wanted = &models // until any newer settings arrive
			m.sendWanted()
		}
		return
	}
	if models == m.settings.Models {
		return
	}
	s := m.settings
	s.Version++
	s.Models = models
	m.adoptSettings(s)
}

func (m *Machine) sendWanted() {
	if m.wanted == nil || m.parent == nil {
		return
	}
	msg := m.emitOn(m.parent, protocol.KindPropose)
	msg.Settings.Models = *m.wanted
	m.commit(m.parent, msg)
}

// renewSettings numbers the settings anew at the beginning of a view, above those of
// every view before: whoever has others goes over to ours.
func (m *Machine) renewSettings() {
	wanted := m.wanted
	s := m.settings
	s.Version = max(s.Version+1, m.epoch.View()<<16)
	m.adoptSettings(s)
	if wanted != nil {
		m.propose(*wanted)
	}
}

// adoptSettings puts newer settings in force here and passes them on.
func (m *Machine) adoptSettings(s protocol.Settings) {
	if s.Version <= m.settings.Version {
		return
	}
	old := m.settings
	m.settings = protocol.Settings{
		Version: s.Version, Models: s.Models, Open: s.Open,
		Resources: sortedSet(s.Resources),
	}
	if slices.Equal(old.Resources, m.settings.Resources) {
		m.settings.Resources = old.Resources // messages under way share it
	}
	m.wanted = nil
	if old.Models.Priority != s.Models.Priority {
		m.reorder(m.any)
		for _, r := range m.resources {
			m.reorder(&r.q)
		}
	}
	for _, l := range m.children {
		msg := m.emitOn(l, protocol.KindSettings)
		msg.Settings = m.settings
		m.commit(l, msg)
	}
	if m.parent != nil { // the new order, or Forward, may bring others up
		m.nameQueue(m.any)
		for _, r := range m.resources {
			m.nameQueue(&r.q)
		}
	}
}

// reorder puts a queue into the order of a new Priority model. What waits arrives
// anew, in the order of Fair.
func (m *Machine) reorder(q *queue) {
	if q == nil {
		return
	}
	for _, e := range q.waiting {
		e.level = 1
	}
	slices.SortFunc(q.waiting, func(a, b *entry) int { return compare(protocol.Fair, a, b) })
	for _, e := range q.waiting {
		m.arrive(e, m.rivals(q)-1)
	}
	q.sort(m.settings.Models.Priority)
}
