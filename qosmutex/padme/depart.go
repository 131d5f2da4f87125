package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// depart begins to leave: no more requests, and everything that is ours goes
// back. Role is Departed once the parent has confirmed, or when asked again.
func (m *Machine) depart() {
	if m.departing {
		m.finish()
		return
	}
	m.departing, m.departBy = true, m.now+m.grace()
	for _, e := range slices.Clone(m.own) { // first, or the token that we leave would be ours again
		if e.state == waiting {
			m.deny(e.ref, e.q.resource, protocol.ReasonClosed)
			m.drop(e, true)
		}
	}
	for len(m.own) > 0 {
		e := m.own[0]
		m.lost(m.find(e.q.resource))
		_ = m.leave(e.ref)
	}
	m.giveBack(0)
	if m.role == protocol.Root {
		m.resign()
		return
	}
	if m.parent != nil {
		m.sayFarewell()
	} else if m.role != protocol.Joining || m.join == nil || m.join.target.IsZero() {
		m.finish() // else once our new parent has taken us
	}
}

// resign lets a departing root go once its best child is to be the root. While a member
// that can be the root is no such child yet, or members of the root before may not have
// shown themselves, it waits for them until departBy. Of those that nobody knows it only hands
// on for how long they may hold.
func (m *Machine) resign() {
	if a := &m.authority; m.inheriting() && (!a.before.IsZero() || len(a.awaited) > 0) {
		return
	}
	if !slices.ContainsFunc(m.members, func(s *memberSession) bool { return s.candidate && !s.goodbye && !s.leaves }) {
		m.finish()
		return
	}
	if best := m.bestChild(); best != nil && m.acting() {
		m.out.Successor = best.peer
	}
}

// departInVain gives up waiting for an orderly end. Not if there is somebody to hand over to
// now: who has just been let in would lose its hold.
func (m *Machine) departInVain() {
	if m.acting() && !m.inheriting() && m.bestChild() != nil {
		m.departBy = m.now + m.grace()
		m.resign()
		return
	}
	m.finish()
}

// leaveTo ends a departing root, which sends its children to its successor.
func (m *Machine) leaveTo(successor protocol.Node) {
	m.root = successor
	for _, l := range m.children {
		if l.peer != successor {
			move := m.emitOn(l, protocol.KindMove)
			move.MoveTo = successor
			m.commit(l, move)
		}
	}
	m.finish()
}

// sayFarewell sends our children away and asks our parent to let us go. Both
// come after all that we sent before on the same links.
func (m *Machine) sayFarewell() {
	for _, l := range m.children {
		m.commit(l, m.emitOn(l, protocol.KindMove))
	}
	m.commit(m.parent, m.emitOn(m.parent, protocol.KindDetach))
}

// finish ends the machine. Children that are still here would else go on believing in us
// until they miss our beacons.
func (m *Machine) finish() {
	for _, l := range m.children {
		if l.peer != m.root { // that is our successor
			m.emitOn(l, protocol.KindDetach)
		}
	}
	if m.session.number != 0 && !m.root.IsZero() {
		bye := m.emit(protocol.KindGoodbye, m.root)
		bye.Session = m.session.number
	}
	for _, r := range m.resources {
		m.lose(r)
	}
	m.role, m.join = protocol.Departed, nil
	m.out.Changed = true
}
