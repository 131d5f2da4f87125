package padme

import "padme/qosmutex/protocol"

// A root that is started again at its own place goes on with the holds of its process
// that had ended. Nobody was the root since, so nobody else is inside. Each is a grant of
// the new term to ourselves, with the fence of before.

// resume lets the holds go on. It reports whether all do: who is inside of another one
// counts as somebody who does not show himself.
func (m *Machine) resume(held []protocol.Held, alone bool) bool {
	all := true
	for i := range held {
		if h := &held[i]; alone && m.canResume(h) {
			m.goOn(h)
		} else {
			all = false
		}
	}
	return all
}

// canResume reports whether h fits what we know.
func (m *Machine) canResume(h *protocol.Held) bool {
	if h.Ref == 0 || m.ownByRef(h.Ref) != nil || h.Fence == 0 || h.Fence >= m.fences || !m.known(h.Resource) {
		return false
	}
	r := m.find(h.Resource)
	return r == nil || r.tok.phase != using
}

func (m *Machine) goOn(h *protocol.Held) {
	m.idle = false
	m.counters.Adopted++
	e := m.newEntry()
	e.ref, e.priority, e.fixed, e.client = h.Ref, h.Priority, true, h.Client
	m.name(e)
	r := m.resource(h.Resource)
	e.q = &r.q
	m.setDeadline(e, 0, 0, 0)
	m.own = append(m.own, e)
	m.requests.add(e)
	m.wait(e)
	t := &r.tok
	next := t.next
	t.recovery, t.next = nil, h.Fence
	m.give(r, e, protocol.HowResumed)
	t.next = next
}
