package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// Status implements [protocol.Machine].
func (m *Machine) Status() protocol.Status {
	s := m.Overview()
	s.Settings.Resources = slices.Clone(s.Settings.Resources)
	for _, r := range m.resources {
		s.Resources = append(s.Resources, m.resourceStatus(r, -1))
	}
	return s
}

// Overview is Status without the resources and what that costs. The caller must not change
// its Settings.Resources, which is the machine's.
func (m *Machine) Overview() protocol.Status {
	s := protocol.Status{
		Role: m.role, Root: m.root, Epoch: m.epoch, Depth: int(m.depth), Members: m.size(), Priority: m.priority,
		TTL: m.timing.TTL, Counters: m.counters,
		Session: m.session.number, ValidUntil: m.ValidUntil(),
	}
	s.Settings = m.settings
	if m.parent != nil {
		s.Parent = m.parent.peer
	}
	for _, l := range m.children {
		s.Children = append(s.Children, l.peer)
	}
	return s
}

// size is that of the tree: exact at the root, elsewhere as it was at its
// last beacon.
func (m *Machine) size() int {
	if m.role == protocol.Root {
		return len(m.members) + 1
	}
	return int(m.beacon.members)
}

// ValidUntil is the instant below which the machine's holds are valid, without
// the cost of Status: the end of the session, or of the one that the root will have
// when its lease ends.
func (m *Machine) ValidUntil() protocol.Time {
	switch {
	case m.role == protocol.Root:
		return m.heldUntil()
	case m.role == protocol.Departed || m.session.number == 0:
		return 0
	}
	return m.session.until
}

// RulesUntil is the instant below which the machine speaks for the topic: it is the
// root, and its lease is valid. 0: it may not. One that left while it was the root
// may until its lease ends, for nobody else is the root before.
func (m *Machine) RulesUntil() protocol.Time {
	if m.role == protocol.Root || m.leftAsRoot() {
		return m.authority.until
	}
	return 0
}

// Resource describes one resource without the cost of Status, with at most most
// waiters by name. ok is false if nothing is known of it.
func (m *Machine) Resource(name string, most int) (s protocol.ResourceStatus, ok bool) {
	r := m.find(name)
	if r == nil {
		return s, false
	}
	return m.resourceStatus(r, most), true
}

func (m *Machine) resourceStatus(r *resource, most int) protocol.ResourceStatus {
	t, h := &r.tok, m.holderOf(r)
	s := protocol.ResourceStatus{
		Resource: r.q.resource, Inside: t.phase == using, Fences: m.grantFences(t, h),
		Free: t.phase == home || m.leftAsRoot() && len(m.members) == 0 && m.authority.inherit == 0, // nobody else was there
	}
	if h != nil {
		s.Holder, s.HolderP, s.HolderClient = h.entry, h.priority, h.client
	} else {
		s.Retained = m.role == protocol.Root && t.phase == below && t.idle && t.recovery == nil
		s.Lost = m.role == protocol.Root && t.phase == below && t.recovery != nil && !t.recovery.recall || m.leftAsRoot() && !s.Free
	}
	if t.phase == below || t.phase == using {
		s.Target, s.TargetP, s.TargetClient = t.target, t.prio, m.clientOf(t.target)
	}
	switch {
	case t.phase == using:
		s.Fence = t.fence
	case m.role == protocol.Root:
		s.Fence = t.next
	}
	s.Waiting = m.waitFor(r)
	if n := m.named(r); most < 0 || most > n {
		most = n
	}
	if most > 0 {
		s.Queue = m.appendQueue(make([]protocol.Waiter, 0, most), r, most)
	}
	return s
}
