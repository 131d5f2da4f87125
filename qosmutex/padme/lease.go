package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// lease is what entitles the root to act and to hold: its own heartbeat came back
// to it over the transport, sent less than TTL ago. A root that is cut off stops
// before anybody can have founded the topic anew; a founder that is cut off does
// not take silence for an empty topic. It is the confirmation of a view with one
// voter, the root itself, and its own voice among several.
type lease struct {
	sent protocol.Time // of the newest heartbeat that came back
}

// onEcho takes our own heartbeat back.
func (m *Machine) onEcho(msg *protocol.Message) error {
	l := &m.lease
	if msg.To != m.self || msg.Sent > m.now || msg.Sent < l.sent {
		return m.stale(msg, "not a new echo")
	}
	gap := m.role == protocol.Founding && (m.join.founding.heard == 0 || msg.Sent-l.sent > m.timing.TTL/2)
	l.sent = msg.Sent
	if gap {
		m.join.founding.heard = msg.Sent
		m.join.founding.at = m.now + m.listening()
	}
	return nil
}

// listening is how long a founder listens. A root that is cut off when we begin may
// have its connection back just before its lease ends: it must hear another Join, and
// we its answer, which takes two waits for offers; and as long again if it was cut off
// only after we began, but before it heard our first.
func (m *Machine) listening() protocol.Duration {
	d := m.grace + 4*m.timing.JoinWait
	if m.founder != nil && m.settings.Version == 0 { // else we were a member since
		d = max(d, m.founder.Listen)
	}
	if m.join != nil && m.join.founding != nil {
		d = max(d, m.join.founding.least)
	}
	return d
}

// listenFor has a founder listen for as long as d at least from now on.
func (m *Machine) listenFor(d protocol.Duration) {
	if m.role == protocol.Founding && d > m.join.founding.least {
		m.join.founding.least = d
		m.join.founding.at = m.now + m.listening()
	}
}

// mayFound reports whether the topic was silent for long enough while we could
// hear.
func (m *Machine) mayFound() bool {
	return m.join.founding.doubt.IsZero() && m.now >= m.join.founding.at && m.join.founding.heard != 0 && m.now-m.lease.sent <= m.timing.TTL/2
}

// loseLease ends the reign of a root that is cut off. Its members' sessions lapse
// at the same time, since nobody answers them. With other voters it may be elected
// again. Alone it listens like any founder and then begins a new view, or joins
// whoever was quicker.
func (m *Machine) loseLease() {
	m.count().lapses++
	for _, r := range m.resources {
		t := &r.tok
		if e := t.inside; e != nil {
			m.lose(r, e)
		}
		m.fences = max(m.fences, t.next)
		t.phase, t.down, t.recovery = away, nil, nil
		t.bind(t.grant)
	}
	for len(m.children) > 0 {
		m.dropChild(m.children[0])
	}
	m.sessions, m.nextLapse = nil, protocol.Never
	m.root = protocol.Node{}
	if m.reign() != nil {
		if len(m.electors()) == 1 { // we decided alone till now, whatever others were to
			m.ballot.of = electorate{m.epoch, m.ballot.of.version + 1, []protocol.Node{m.self}}
		}
		m.ballot.reign = nil
	}
	if m.departing {
		m.finish()
		return
	}
	for _, e := range slices.Clone(m.own) {
		m.unsend(e)
	}
	if m.votes() {
		m.joinAnew()
		return
	}
	m.listen()
}

// listen begins, or begins again, to find out whether the topic has a root.
func (m *Machine) listen() {
	m.role = protocol.Founding
	m.lease = lease{}
	m.join = &join{founding: &founding{at: m.now + m.listening()}}
	m.startJoin()
	m.beat()
}
