package padme

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// expire applies what has lapsed by now. It runs before each input, so that
// nothing lapsed is ever used.
func (m *Machine) expire() {
	m.missed()
	if m.role == protocol.Root {
		if m.now >= m.authority.until {
			m.stepDown()
			return
		}
		m.expireSessions()
		m.expireGrants()
		return
	}
	if m.session.number != 0 && m.now >= m.session.until {
		m.lapse()
	}
	m.expireHolds()
}

// timers does what is due by now.
func (m *Machine) timers() {
	if m.role == protocol.Departed {
		return
	}
	if m.departing && m.now >= m.departBy {
		m.finish()
		return
	}
	if m.role == protocol.Member && m.parent != nil && m.now >= m.beaconTimeout(&m.core) {
		m.orphan()
	}
	m.joinTimers()
	if m.inheriting() && m.now >= m.authority.inherit {
		m.inherited()
	}
	m.call()
	m.askForConfirmation()
	if m.now < m.beacon.next {
		return
	}
	m.beacon.next = m.now + m.heartbeat()
	for _, l := range slices.Clone(m.children) {
		if m.now >= l.heard+m.grace || l.unacked > maxUnacked {
			m.dropChild(l)
		} else if l.leaving && m.now >= l.leaveBy {
			m.remind(l)
		}
	}
	m.retrySyncs()
	m.beat()
	if m.role == protocol.Root {
		m.beacon.number++
		m.beacon.members = uint32(len(m.members) + 1)
		m.sendBeacons()
		m.needFences()
		if m.inheriting() { // who holds must hear of us in time
			m.offer(protocol.Node{})
		}
		if m.departing {
			m.resign()
		} else {
			m.considerHandover()
		}
		return
	}
	m.considerMove()
}

func (m *Machine) joinTimers() {
	j := m.join
	if j == nil || m.now < j.until {
		return
	}
	if j.target.IsZero() && !j.best.from.IsZero() && m.session.number != 0 {
		m.progressJoin()
		return
	}
	if j.moving { // no better place answered
		m.join = nil
		return
	}
	m.startJoin()
}

// wakeAt is the next instant at which expire or timers has something to do.
func (m *Machine) wakeAt() protocol.Time {
	if m.role == protocol.Departed {
		return protocol.Never
	}
	at := min(m.tree.wakeAt(&m.core), m.sessions.wakeAt(&m.core), m.nextDue, after(m.nextMiss, 1))
	return max(at, m.now+1)
}

// sendBeacons tells every child that the root lives, and acknowledges.
func (m *Machine) sendBeacons() {
	if len(m.children) == 0 {
		return
	}
	lineage := m.lineage()
	for _, l := range m.children {
		m.sendBeacon(l, lineage)
	}
}

func (m *Machine) sendBeacon(l *link, lineage []protocol.Node) {
	msg := m.emitOn(l, protocol.KindBeacon)
	msg.Root, msg.Priority, msg.Depth, msg.Seq = m.root, m.priority, m.depth, l.sent
	msg.Number, msg.Members, msg.Path, msg.Clock = m.beacon.number, m.beacon.members, lineage, m.servedClock
}

// onBeacon takes a sign of life. One from the parent that is fresh goes down to
// our children at once, and one of ours back up.
func (m *Machine) onBeacon(l *link, msg *protocol.Message) error {
	l.heard = m.now
	l.ack(msg.Ack)
	if msg.Seq > l.received {
		m.askRepeat(l)
	}
	l.priority = msg.Priority
	if l != m.parent {
		return nil
	}
	m.mergeClock(msg)
	newer := msg.Epoch.Compare(m.epoch)
	if newer < 0 || newer == 0 && msg.Number <= m.beacon.number {
		return nil
	}
	if slices.Contains(msg.Path, m.self) || len(msg.Path) >= maxDepth {
		m.orphan() // a cycle of parents
		return nil
	}
	if newer > 0 {
		m.turn(msg.Epoch, msg.Root)
	}
	m.beacon.number, m.beacon.members, m.beacon.fresh = msg.Number, msg.Members, m.now
	m.depth, m.ancestors = depthBelow(msg.Depth), append(m.ancestors[:0], msg.Path...)
	if newer > 0 {
		m.beat()
	}
	m.sendBeacons()
	m.sendBeacon(m.parent, nil)
	return nil
}

// reconnect repeats what may have been lost while the connection was down.
func (m *Machine) reconnect() {
	if m.parent != nil {
		m.repeat(m.parent)
		m.sendBeacon(m.parent, nil)
	}
	for _, l := range m.children {
		m.repeat(l)
	}
	m.sendBeacons()
	m.beat()
	if m.role == protocol.Root {
		m.offer(protocol.Node{}) // there may be another root by now
	}
	if m.join != nil {
		m.joinAgain()
	}
}

// considerMove looks for a place nearer the root when we have outranked our
// parent for long enough, or when the tree is deeper here than it need be.
func (m *Machine) considerMove() {
	if m.under != "" || m.role != protocol.Member || m.join != nil || m.departing || m.depth < 2 {
		m.outranks = 0
		return
	}
	if rank(m.priority, m.self, m.parent.priority, m.parent.peer) > 0 && m.depth <= m.deepEnough() {
		m.outranks = 0
		return
	}
	if m.outranks == 0 {
		m.outranks = m.now
	}
	if m.now-m.outranks >= m.timing.MoveAfter {
		m.outranks = m.now
		m.joinAgain()
	}
}

// deepEnough is the depth that a tree of this size needs, and two more.
func (m *Machine) deepEnough() uint32 {
	d, room := uint32(2), 1
	for n := int(m.beacon.members); room < n; room *= max(2, m.fanout) {
		d++
	}
	return d
}

// depart begins to leave: no more requests, and everything that is ours goes
// back. Role is Departed once the parent has confirmed, or when asked again.
func (m *Machine) depart() {
	if m.departing {
		m.finish()
		return
	}
	m.departing, m.departBy = true, m.now+m.grace
	for _, e := range slices.Clone(m.own) { // first, or the token that we leave would be ours again
		if e.state == waiting {
			m.deny(e.ref, e.q.resource, protocol.ReasonClosed)
			m.drop(e, true)
		}
	}
	for len(m.own) > 0 {
		e := m.own[0]
		m.out.Losses = append(m.out.Losses, protocol.Loss{Ref: e.ref, ID: e.id, Resource: e.q.resource, Fence: m.find(e.q.resource).tok.fence})
		_ = m.leave(e.ref)
	}
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

// resign lets a departing root go: once its best child is the root, it leaves as a
// member. While there are members but none of them can be the root, it waits for one
// until departBy.
func (m *Machine) resign() {
	if len(m.members) == 0 {
		m.finish()
		return
	}
	m.wishSuccessor(m.bestChild())
}

// sayFarewell sends our children away and asks our parent to let us go. Both
// come after all that we sent before on the same links.
func (m *Machine) sayFarewell() {
	for _, l := range m.children {
		m.commit(l, m.emitOn(l, protocol.KindMove))
	}
	m.commit(m.parent, m.emitOn(m.parent, protocol.KindDetach))
}

// finish ends the machine.
func (m *Machine) finish() {
	if m.session.number != 0 && !m.root.IsZero() {
		bye := m.emit(protocol.KindGoodbye, m.root)
		bye.Session = m.session.number
	}
	for _, r := range m.resources {
		if e := r.tok.inside; e != nil {
			m.lose(r, e)
		}
		r.tok.phase, r.tok.down = away, nil
	}
	m.role, m.join = protocol.Departed, nil
	m.out.Changed = true
}

// depthBelow is our depth below a parent that says how deep it is.
func depthBelow(hops uint32) uint32 { return min(hops, math.MaxUint8-1) + 1 }
