package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/protocol"
)

// beacon is the newest sign of life of the root.
type beacon struct {
	number  uint64
	members uint32
	fresh   protocol.Time // when it arrived
	next    protocol.Time // when the next tick is due
}

// rank orders participants by importance: (P,I) of the papers.
func rank(p int64, n protocol.Node, q int64, o protocol.Node) int {
	if c := cmp.Compare(p, q); c != 0 {
		return c
	}
	return n.Compare(o)
}

func (m *Machine) begin() {
	m.beacon.next = m.now + m.heartbeat()
	m.setFloor(m.fences - 1) // from New
	switch {
	case m.founder == nil || !m.founder.Found:
		m.startJoin()
	case m.founder.AtOnce:
		m.found()
	default:
		m.listen()
	}
}

// floorAt is above what anybody, known to us or not, can have handed out by then: an
// entry each microsecond since our FenceFloor.
func (m *Machine) floorAt(now protocol.Time) uint64 {
	return m.floor + uint64(now/protocol.Microsecond) + 1
}

func (m *Machine) setFloor(fence uint64) { m.floor = fence - uint64(m.now/protocol.Microsecond) }

// raiseFloors takes over floors of this instant. Clocks drift, so that others may be
// ahead of ours since it began.
func (m *Machine) raiseFloors(fence, epoch uint64) {
	if fence >= maxFence {
		return
	}
	if fence >= m.floorAt(m.now) {
		m.setFloor(fence)
	}
	switch m.role {
	case protocol.Founding:
		m.join.founding.above = max(m.join.founding.above, epoch)
	case protocol.Root: // they come late
		m.fences = max(m.fences, fence+1)
		for _, r := range m.resources {
			r.tok.next = max(r.tok.next, m.fences)
		}
	}
}

// found makes this participant the root of a new tree. Others may have founded the
// topic, and have ended, since we were its root or a member last.
func (m *Machine) found() {
	m.fences = max(m.fences, m.floorAt(m.now))
	above := m.epoch.Number
	if f := m.founder; f != nil { // else the root was handed to us once
		above = max(above, f.EpochFloor)
		if m.settings.Version == 0 { // else it is founded again
			m.settings = f.Settings
			m.settings.Version = 1
		}
	}
	if m.join != nil && m.join.founding != nil {
		above = max(above, m.join.founding.above)
	}
	if m.ballot != nil {
		above = max(above, m.ballot.epoch.Number, m.ballot.above)
	}
	e := protocol.Epoch{Number: protocol.NextView(above), Tie: tie(m.self)}
	listened, heard := m.role == protocol.Founding, m.lease.sent
	m.entrust(e, m.self)
	m.becomeRoot(e)
	if listened { // we may have been cut off since, and then another founder waits for us no longer than for a lease from there
		m.lease.sent = heard
	}
	m.renewSettings()
	for _, e := range m.liveEntries() { // asked before the settings were known
		if reason := m.refusal(e.q.resource); reason != protocol.ReasonNone {
			m.refuse(e, reason)
		} else if e.try {
			m.serveTry(e)
		}
	}
	for _, r := range m.resources {
		m.serve(r)
	}
	m.offer(protocol.Node{}) // whoever looks for a root need not ask again
}

// tie makes epochs of different roots differ (FNV-1a over the root's name).
func tie(n protocol.Node) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(n.ID) {
		h = (h ^ uint64(n.ID[i])) * 1099511628211
	}
	for i := range 8 {
		h = (h ^ n.Incarnation>>(8*i)&0xff) * 1099511628211
	}
	return h
}

// becomeRoot starts a reign. Tokens that nobody has are at home.
func (m *Machine) becomeRoot(e protocol.Epoch) {
	m.role, m.epoch, m.root, m.parent = protocol.Root, e, m.self, nil
	m.depth, m.ancestors = 0, m.ancestors[:0]
	m.join, m.session = nil, session{asked: m.session.asked}
	if m.roll == nil {
		m.roll = &roll{}
	}
	m.lastSession = max(m.lastSession, e.View()<<24) // no number twice
	m.outranks, m.nextLapse = 0, protocol.Never
	m.lease.sent = max(m.lease.sent, m.now) // the first one is on its way
	m.beat()
	for _, name := range m.settings.Resources {
		m.resource(name)
	}
	for _, r := range m.resources {
		if r.tok.phase == away {
			r.tok.phase = home
		}
		if r.tok.unconfirmed() { // the root that granted it can end it no more
			m.confirmHold(&r.tok)
		}
		r.tok.next = max(r.tok.next, m.fences)
		r.tok.toTarget = false // the target may be behind who passed us the Reply by now: it is granted anew
	}
}

// lineage is our ancestors and ourselves, root first.
func (m *Machine) lineage() []protocol.Node {
	return append(slices.Clone(m.ancestors), m.self)
}
