package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/protocol"
)

// onAttach takes a child, if need be in the place of the least important one; also one that
// was to leave, and finds that it ranks above another now.
func (m *Machine) onAttach(msg *protocol.Message) error {
	l := m.child(msg.From)
	switch {
	case msg.Link == 0 || msg.Session == 0:
		return m.invalid(msg, "no link or session")
	case m.role != protocol.Root && (m.role != protocol.Member || m.departing),
		slices.Contains(m.ancestors, msg.From):
		m.refuseChild(msg, protocol.ReasonClosed)
		return nil
	case l != nil && l.gen > msg.Link:
		return m.stale(msg, "an old attachment")
	case l != nil && l.gen == msg.Link:
		m.acceptChild(l) // our Accept was lost
		return nil
	case !m.mayAttach(msg):
		m.refuseChild(msg, protocol.ReasonClosed)
		return nil
	}
	var leaveBy protocol.Time
	if (l == nil || l.leaving()) && m.slots() <= 0 {
		switch least := m.leastChild(); {
		case least != nil && comparePlace(msg.Priority, msg.From, least.priority, least.peer) < 0:
			least.leaveBy = m.now + 2*m.heartbeat()
			move := m.emitOn(least, protocol.KindMove)
			move.MoveTo = msg.From
			m.commit(least, move)
		case l == nil:
			m.refuseChild(msg, protocol.ReasonFull)
			return nil
		default: // it still is to leave
			leaveBy = m.now + 2*m.heartbeat()
		}
	}
	fresh := link{
		peer: msg.From, gen: msg.Link, priority: msg.Priority, session: msg.Session,
		parting: msg.Flags&protocol.FlagParting != 0, leaveBy: leaveBy,
	}
	if l != nil {
		m.attachedAgain(l)
	} else {
		l = new(link)
		i, _ := m.searchChild(msg.From)
		m.children = slices.Insert(m.children, i, l)
	}
	*l = fresh
	m.acceptChild(l)
	return nil
}

// mayAttach reports whether a participant may be our child, and ends the link of its former
// incarnation: a member may invent any number of them, and each takes a place. The later
// session tells which is the former one, as a wall clock may have been set back. The root
// knows the sessions of all, unless it inherits.
func (m *Machine) mayAttach(msg *protocol.Message) bool {
	if m.role == protocol.Root && !m.inheriting() {
		if s := m.sessionOf(msg.From); s == nil || s.number != msg.Session {
			return false
		}
	}
	i, _ := m.searchChild(protocol.Node{ID: msg.From.ID})
	for i < len(m.children) && m.children[i].peer.ID == msg.From.ID {
		switch o := m.children[i]; {
		case o.peer == msg.From:
			i++
		case o.session > msg.Session:
			return false
		default:
			m.dropChild(o)
		}
	}
	return true
}

// attachedAgain prepares for a child's new attachment. What it does not name again is
// dropped by sweep.
func (m *Machine) attachedAgain(l *link) {
	for _, e := range m.requests {
		if e.from == l {
			e.named = false
		} else {
			e.also = e.alsoBut(l)
		}
	}
	m.tokensBelow(l)
}

// remind tells a child again that it is to leave, and this time that any other
// place will do: the one it was sent to may be gone, or have been below it.
func (m *Machine) remind(l *link) {
	if len(m.children) <= m.fanout {
		l.leaveBy = 0 // there is room again
		return
	}
	l.leaveBy = m.now + m.grace()
	m.commit(l, m.emitOn(l, protocol.KindMove))
}

func (m *Machine) refuseChild(msg *protocol.Message, why protocol.Reason) {
	no := m.emit(protocol.KindRefuse, msg.From)
	no.Link, no.Reason = msg.Link, why
}

func (m *Machine) acceptChild(l *link) {
	msg := m.emitOn(l, protocol.KindAccept)
	msg.TTL, msg.Settings = m.timing.TTL, m.settings
	m.setPlace(msg, m.lineage())
}

// onAccept makes the candidate our parent and names every live request to it.
func (m *Machine) onAccept(msg *protocol.Message) error {
	j := m.join
	if !m.asked(msg) {
		return m.stale(msg, "not asked for")
	}
	if msg.Epoch.Compare(m.epoch) < 0 || m.session.number == 0 {
		return m.stale(msg, "an old epoch or session")
	}
	if m.isBelow(msg) {
		m.startJoin(j.rounds)
		return nil
	}
	m.mergeClock(msg)
	if l := m.child(msg.From); l != nil {
		m.dropChild(l) // it has a parent elsewhere by now: it could not accept us below itself
	}
	old := m.parent
	m.join, m.parent = nil, nil
	m.adoptEpoch(msg.Epoch, msg.Root)
	m.parent = &link{peer: msg.From, gen: msg.Link}
	m.role, m.root = protocol.Member, msg.Root
	m.out.Changed = true
	m.takePlace(msg)
	m.outranks = 0
	m.adoptSettings(&msg.Settings)
	if old != nil {
		m.counters.Moves++
		m.emitOn(old, protocol.KindDetach)
	}
	m.nameAll()
	m.resumeUpward(cmp.Or(old, j.lost))
	m.sendBeacons()
	m.beat() // the root learns our place
	if m.departing {
		m.sayFarewell()
	}
	return nil
}

// resumeUpward passes on what could not go up while there was no parent. What
// was sent on a lost link but never acknowledged goes again as a receipt. It takes
// no request back, for those that live were just named.
func (m *Machine) resumeUpward(old *link) {
	if old != nil {
		for _, was := range old.unacknowledged() {
			if was.Kind != protocol.KindRelease {
				continue
			}
			was.Flags = was.Flags&^protocol.FlagReturned | protocol.FlagRepeated
			m.sendRelease(&was)
		}
	}
	for _, r := range m.resources {
		switch t := &r.tok; {
		case t.phase == kept:
			m.passUp(r, t.returned)
		case t.phase == below && t.down == nil:
			m.sendReceipt(r)
		}
	}
	m.sendWanted()
}

// orphan gives up our parent and looks for another, or goes on with the one that it has asked
// already. Our children stay.
func (m *Machine) orphan() {
	lost := m.parent
	m.parent = nil
	m.out.Changed = true
	if j := m.join; j != nil && !j.target.IsZero() && j.target != lost.peer {
		m.role, j.lost = protocol.Joining, lost
		return
	}
	if m.departing {
		m.finish()
		return
	}
	m.startJoin(0)
	m.join.lost = lost
}

// closed handles the end of a link that the peer has closed.
func (m *Machine) closed(l *link) {
	if l == m.parent {
		m.orphan()
		return
	}
	m.dropChild(l)                   // first: one that leaves answers a Sync only before
	m.emitOn(l, protocol.KindDetach) // confirms
}

// leftBy lets a child go that leaves for good. Not one that may be the root by now: it has to
// hand on what it gets of us. If it is not, it leaves without our word after a while.
func (m *Machine) leftBy(l *link) {
	if m.role == protocol.Root {
		if l.peer == m.authority.yieldsTo {
			return
		}
		if s := m.sessionOf(l.peer); s != nil {
			s.leaves = true
		}
	}
	m.closed(l)
}

// dropChild forgets a child and the requests that came from it.
func (m *Machine) dropChild(l *link) {
	m.children = slices.DeleteFunc(m.children, func(c *link) bool { return c == l })
	for _, e := range slices.Clone(m.requests) {
		if m.takeBack(e, l) {
			m.drop(e, true)
		}
	}
	for q := range m.eachQueue {
		q.forget(l)
	}
	m.tokensBelow(l)
}

// onUnknownLink answers a peer that believes in a link which we do not have.
func (m *Machine) onUnknownLink(msg *protocol.Message) error {
	known := m.child(msg.From) != nil || m.parent != nil && m.parent.peer == msg.From ||
		m.join != nil && m.join.target == msg.From
	if !known && msg.Link != 0 && msg.Kind != protocol.KindDetach {
		no := m.emit(protocol.KindDetach, msg.From)
		no.Link = msg.Link
	}
	return m.stale(msg, "unknown link")
}
