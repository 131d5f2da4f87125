package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// expire ends what is over by now. It runs before each input, so that nothing expired
// is ever used.
func (m *Machine) expire() {
	m.missed()
	if m.role == protocol.Root {
		if m.now >= m.authority.until {
			m.stepDown()
			return
		}
		m.expireSessions()
		m.expireProvisional()
		return
	}
	if m.session.number != 0 && m.now >= m.session.until {
		m.expireOwn()
	}
	m.expireProvisional()
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
		if l.mute != 0 && m.now >= l.mute+m.grace() || l.unacked > maxUnacked {
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
