package static

import (
	"slices"

	"padme/qosmutex/protocol"
)

// Status implements [protocol.Machine]. The first participant calls itself the
// root: somebody must speak for the topic. There is no session that could end.
func (m *Machine) Status() protocol.Status {
	s := protocol.Status{
		Role: protocol.Member, Members: len(m.cfg.Members), Priority: m.priority, TTL: m.cfg.Timing.TTL,
		Epoch: protocol.Epoch{Number: m.cfg.EpochFloor + 1}, Root: protocol.Node{ID: m.cfg.Members[0]},
		Session: 1, ValidUntil: protocol.Never, Counters: m.counters,
	}
	if m.self == 0 {
		s.Role = protocol.Root
	}
	if m.departed {
		s.Role, s.Session, s.ValidUntil = protocol.Departed, 0, 0
	}
	s.Settings = m.cfg.Settings
	s.Settings.Resources = slices.Clone(m.resources)
	for _, e := range m.envs {
		s.Resources = append(s.Resources, m.resource(e))
	}
	return s
}

func (m *Machine) resource(e *Env) protocol.ResourceStatus {
	r := protocol.ResourceStatus{Resource: e.Resource}
	add := func(c *call) {
		r.Queue = append(r.Queue, protocol.Waiter{ID: c.ID, Client: c.client, Priority: c.Priority})
	}
	switch c := e.own; {
	case c == nil || c.withdrawn:
	case c.inside:
		r.Inside, r.Target, r.TargetP, r.TargetClient, r.Fence = true, c.ID, c.Priority, c.client, c.fence
		r.Holder, r.HolderP, r.HolderClient = protocol.Entry{ID: c.ID, Fence: c.fence}, c.Priority, c.client
	default:
		add(c)
	}
	for _, c := range e.waiting {
		add(c)
	}
	r.Waiting = len(r.Queue)
	return r
}

// ValidUntil is never over: a static algorithm has no sessions.
func (m *Machine) ValidUntil() protocol.Time {
	if m.departed {
		return 0
	}
	return protocol.Never
}

// Resource describes one resource as this participant knows it, with at most most
// waiters by name (all if negative). ok is false if it was never named.
func (m *Machine) Resource(name string, most int) (s protocol.ResourceStatus, ok bool) {
	i, ok := m.find(name)
	if !ok {
		return s, false
	}
	s = m.resource(m.envs[i])
	if most >= 0 && len(s.Queue) > most {
		s.Queue = s.Queue[:most]
	}
	return s, true
}
