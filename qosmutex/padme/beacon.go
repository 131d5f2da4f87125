package padme

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// sendBeacons tells every child that the root lives, and acknowledges.
func (m *Machine) sendBeacons() {
	if len(m.children) == 0 {
		return
	}
	lineage := m.lineage()
	for _, l := range m.children {
		if l.mute == 0 {
			l.mute = m.now
		}
		m.sendBeacon(l, lineage)
	}
}

func (m *Machine) sendBeacon(l *link, lineage []protocol.Node) {
	msg := m.emitOn(l, protocol.KindBeacon)
	msg.Priority, msg.Seq = m.priority, l.sent
	m.setPlace(msg, lineage)
}

// setPlace says where we are below the root, and how new our sign of its life is.
func (m *Machine) setPlace(msg *protocol.Message, lineage []protocol.Node) {
	msg.Root, msg.Depth, msg.Path = m.root, m.depth, lineage
	msg.Number, msg.Members, msg.Clock = m.beacon.number, m.beacon.members, m.servedClock
}

// takePlace takes the place below a parent that says where it is.
func (m *Machine) takePlace(msg *protocol.Message) {
	m.beacon.number, m.beacon.members, m.beacon.fresh = msg.Number, msg.Members, m.now
	m.depth, m.ancestors = min(msg.Depth, math.MaxUint8-1)+1, append(m.ancestors[:0], msg.Path...)
}

// isBelow reports whether a parent that says where it is is below us, or as good as that.
func (m *Machine) isBelow(msg *protocol.Message) bool {
	return slices.Contains(msg.Path, m.self) || len(msg.Path) >= maxDepth
}

// onBeacon takes a sign of life. One from the parent that is fresh goes down to
// our children at once, and one of ours back up.
func (m *Machine) onBeacon(l *link, msg *protocol.Message) error {
	l.mute = 0
	l.ack(msg.Ack)
	if l.unacked == 0 { // who sends all the time makes room once in so many messages
		l.kept = nil
	}
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
	if m.isBelow(msg) {
		m.orphan() // a cycle of parents
		return nil
	}
	if newer > 0 {
		m.turn(msg.Epoch, msg.Root)
	}
	m.takePlace(msg)
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
	if m.role == protocol.Root {
		m.offer(protocol.Node{}) // there may be another root by now, which hears that before we hear ourselves
		m.waitForOtherRoot()
	}
	m.beat()
	m.callForRoot() // the broker was started again, perhaps with whoever served the topic
	if m.join != nil {
		m.startJoin(0)
	}
}

// considerMove looks for a place nearer the root when we have outranked our
// parent for long enough, or when the tree is deeper here than it need be.
func (m *Machine) considerMove() {
	settled := m.under == "" && m.role == protocol.Member && m.join == nil && !m.departing && m.depth >= 2
	if m.outrankedFor(settled && (comparePlace(m.priority, m.self, m.parent.priority, m.parent.peer) <= 0 || m.depth > m.deepEnough())) {
		m.outranks = m.now
		m.startJoin(0)
	}
}

// outrankedFor notes whether there would be a better place, and reports whether that has
// been so for long enough.
func (m *Machine) outrankedFor(better bool) bool {
	switch {
	case !better:
		m.outranks = 0
	case m.outranks == 0:
		m.outranks = m.now
	}
	return better && m.now-m.outranks >= m.timing.MoveAfter
}

// deepEnough is the depth that a tree of this size needs, and two more.
func (m *Machine) deepEnough() uint32 {
	d, room := uint32(2), 1
	for n := int(m.beacon.members); room < n; room *= max(2, m.fanout) {
		d++
	}
	return d
}
