package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// lease is what entitles the root to act and to hold: its own heartbeat came back
// to it over the transport, sent less than TTL ago. A root that is cut off stops
// before anybody can have founded the topic anew; a founder that is cut off does
// not take silence for an empty topic. It is the confirmation of a view with one
// voter, the root itself.
type lease struct {
	sent  protocol.Time // of the newest heartbeat that came back
	since protocol.Time // founding: since when they have come back without a gap; 0: not yet
}

// onEcho takes our own heartbeat back.
func (m *Machine) onEcho(msg *protocol.Message) error {
	l := &m.lease
	if msg.To != m.self || msg.Sent > m.now || msg.Sent < l.sent {
		return m.stale(msg, "not a new echo")
	}
	gap := l.since == 0 || msg.Sent-l.sent > m.timing.TTL/2
	l.sent = msg.Sent
	if m.role == protocol.Founding && gap {
		l.since = msg.Sent
		m.join.foundAt = m.now + m.grace
	}
	return nil
}

// leaseEnd is when the root must stop unless another heartbeat comes back.
func (m *Machine) leaseEnd() protocol.Time { return m.lease.sent + m.timing.TTL }

// mayFound reports whether the topic was silent for long enough while we could
// hear.
func (m *Machine) mayFound() bool {
	return m.now >= m.join.foundAt && m.lease.since != 0 && m.now-m.lease.sent <= m.timing.TTL/2
}

// loseLease ends the reign of a root that is cut off. Its members' sessions lapse
// at the same time, since nobody answers them. It listens like any founder and
// then begins a new epoch, or joins whoever was quicker.
func (m *Machine) loseLease() {
	m.count().lapses++
	for _, r := range m.resources {
		t := &r.tok
		if e := t.inside; e != nil {
			m.lose(r, e)
		}
		m.fences = max(m.fences, t.next)
		t.phase, t.down, t.recovery, t.bound = away, nil, nil, t.grant
	}
	for len(m.children) > 0 {
		m.dropChild(m.children[0])
	}
	m.sessions, m.nextLapse = nil, protocol.Never
	m.root = protocol.Node{}
	if m.departing {
		m.finish()
		return
	}
	for _, e := range slices.Clone(m.own) {
		m.unsend(e)
	}
	m.listen()
}

// listen begins, or begins again, to find out whether the topic has a root.
func (m *Machine) listen() {
	m.role = protocol.Founding
	m.lease = lease{}
	m.join = &join{foundAt: m.now + m.grace}
	m.startJoin()
	m.beat()
}
