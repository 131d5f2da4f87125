package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// timer is what is to be done at an instant; Never: not now.
type timer struct {
	at protocol.Time
	do func(*Machine)
}

func when(is bool, at protocol.Time) protocol.Time {
	if is {
		return at
	}
	return protocol.Never
}

// expiries is how many of the timers end what is over. They come before each input, so
// that nothing expired is ever used; the others come after it.
const expiries = 5

func (m *Machine) timers() [12]timer {
	root, searching := m.role == protocol.Root, protocol.Never
	if m.join != nil {
		searching = m.join.until
	}
	return [...]timer{
		{after(m.nextMiss, 1), (*Machine).missed},
		{when(root, m.authority.until), (*Machine).stepDown},
		{when(root, m.nextExpiry), (*Machine).expireSessions},
		{when(!root && m.session.number != 0, m.session.until), (*Machine).expireOwn},
		{m.nextDue, (*Machine).expireProvisional},

		{when(m.departing, m.departBy), (*Machine).finish},
		{when(m.role == protocol.Member, m.beaconTimeout(&m.core)), (*Machine).orphan},
		{searching, (*Machine).searched},
		{when(m.inheriting(), m.authority.inherit), (*Machine).inherited},
		{when(m.inheriting() && len(m.authority.awaited) > 0, m.authority.callAt), (*Machine).call},
		{m.confirmAt, (*Machine).askForConfirmation},
		{m.beacon.next, (*Machine).tick},
	}
}

// run does what is due by now.
func (m *Machine) run(first, end int) {
	all := m.timers()
	for i := first; i < end && m.role != protocol.Departed; i++ {
		if m.now >= all[i].at {
			all[i].do(m)
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
		at = min(at, t.at)
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
