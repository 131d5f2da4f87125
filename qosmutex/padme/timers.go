package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// when is at, or Never unless is.
func when(is bool, at protocol.Time) protocol.Time {
	if is {
		return at
	}
	return protocol.Never
}

// duties run when their instants come; timers has those in the same order. The first
// duties, the expiries, end what is over. They run before each input, so that nothing
// expired is ever used; the others run after it.
var duties = [...]func(*Machine){
	(*Machine).missed, (*Machine).stepDown, (*Machine).expireSessions, (*Machine).expireOwn, (*Machine).expireProvisional,

	(*Machine).departInVain, (*Machine).orphan, (*Machine).searched, (*Machine).inherited, (*Machine).call,
	(*Machine).askForConfirmation, (*Machine).tick,
}

const expiries = 5

// timers are the instants of the duties; Never: not now.
func (m *Machine) timers() [len(duties)]protocol.Time {
	root, inheriting, searching := m.role == protocol.Root, m.inheriting(), protocol.Never
	if m.join != nil {
		searching = m.join.until
	}
	return [...]protocol.Time{
		after(m.nextMiss, 1),
		when(root, m.authority.until),
		when(root, m.heardBy(m.nextExpiry)),
		when(!root && m.session.number != 0, m.session.until),
		m.heardBy(m.nextDue),

		when(m.departing, m.departBy),
		when(m.role == protocol.Member, m.beaconTimeout(&m.core)),
		searching,
		when(inheriting, m.authority.inherit),
		when(inheriting && len(m.authority.awaited) > 0, m.authority.callAt),
		m.confirmAt,
		m.beacon.next,
	}
}

// run does what is due by now.
func (m *Machine) run(first, end int) {
	all := m.timers()
	for i := first; i < end && m.role != protocol.Departed; i++ {
		if m.now >= all[i] {
			duties[i](m)
			all = m.timers() // it may have changed the others
		}
	}
}

// wakeAt is the next instant at which there is something to do.
func (m *Machine) wakeAt() protocol.Time {
	at := protocol.Never
	if m.role == protocol.Departed {
		return at
	}
	for _, t := range m.timers() {
		at = min(at, t)
	}
	return max(at, m.now+1)
}

// tick is what is done every heartbeat.
func (m *Machine) tick() {
	m.beacon.next = m.now + m.heartbeat()
	for _, l := range slices.Clone(m.children) {
		if l.mute != 0 && m.now >= l.mute+m.grace() || l.unacked > maxUnacked {
			m.dropChild(l)
		} else if l.leaving() && m.now >= l.leaveBy {
			m.remind(l)
		}
	}
	m.retrySyncs()
	m.beat()
	if m.role == protocol.Root {
		m.beacon.number++
		m.beacon.members = uint32(len(m.members) + 1)
		m.sendBeacons()
		m.needFences(m.topFence())
		m.replyAgain()
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
	m.giveBack(m.timing.TTL)
	m.considerMove()
}

// searched goes on with the search for a parent after a round of it.
func (m *Machine) searched() {
	j := m.join
	switch {
	case j.target.IsZero() && !j.best.from.IsZero() && m.session.number != 0:
		m.progressJoin()
	case m.parent != nil: // no better place answered
		m.join = nil
	default:
		m.startJoin(j.rounds)
	}
}
