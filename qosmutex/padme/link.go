package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// maxUnacked bounds what a link keeps for repetition. A peer that acknowledges
// so little is treated as silent.
const maxUnacked = 1 << 14

// link is one end of the channel between a child and its parent. It numbers its
// messages, keeps them until they are acknowledged and repeats them on demand,
// so that a lost connection delays messages but neither loses, doubles nor
// reorders them. The child names each attachment with a generation; messages of
// another generation are dropped.
type link struct {
	peer     protocol.Node
	gen      uint64
	priority int64  // of the peer, as a participant
	session  uint64 // at the parent's end: the child's session
	depth    uint32 // at the child's end: the parent's depth
	heard    protocol.Time

	sent, acked, received uint64
	unacked               []protocol.Message // ring; Path and Entries are owned
	first                 int                // index of message acked+1 in unacked
	askedAfter            uint64             // received+1 when we last asked for a repetition
	askedAt               protocol.Time

	leaving bool          // at the parent's end: told to attach elsewhere
	leaveBy protocol.Time // leaving: then it is told again
}

// emit appends an empty message to the output. The pointer is good until the
// next emit.
func (m *Machine) emit(kind protocol.Kind, to protocol.Node) *protocol.Message {
	m.out.Messages = append(m.out.Messages, protocol.Message{})
	msg := &m.out.Messages[len(m.out.Messages)-1]
	msg.Kind, msg.From, msg.To = kind, m.self, to
	msg.Epoch, msg.Clock = m.epoch, max(m.clock, m.rootClock)
	m.counters.Sent[kind]++
	return msg
}

// emitOn appends a message that travels on l; commit numbers it once its fields
// are set.
func (m *Machine) emitOn(l *link, kind protocol.Kind) *protocol.Message {
	msg := m.emit(kind, l.peer)
	msg.Link, msg.Ack = l.gen, l.received
	return msg
}

// commit numbers the last emitted message and keeps it until it is acknowledged.
func (m *Machine) commit(l *link, msg *protocol.Message) {
	l.sent++
	msg.Seq = l.sent
	n := int(l.sent - l.acked)
	if n > len(l.unacked) {
		l.grow()
	}
	slot := &l.unacked[(l.first+n-1)%len(l.unacked)]
	path, entries := slot.Path, slot.Entries
	*slot = *msg
	slot.Path = append(path[:0], msg.Path...)
	slot.Entries = append(entries[:0], msg.Entries...)
}

func (l *link) grow() {
	bigger := make([]protocol.Message, max(2, 2*len(l.unacked)))
	for i := range l.unacked {
		bigger[i] = l.unacked[(l.first+i)%len(l.unacked)]
	}
	l.unacked, l.first = bigger, 0
}

// ack forgets what the peer has received.
func (l *link) ack(upTo uint64) {
	if upTo <= l.acked || upTo > l.sent {
		return
	}
	l.first = (l.first + int(upTo-l.acked)) % len(l.unacked)
	l.acked = upTo
	if l.acked == l.sent && len(l.unacked) > 8 {
		l.unacked, l.first = slices.Clip(l.unacked[:2]), 0 // a burst is over: give its memory back
	}
}

// repeat sends again everything that was not acknowledged.
func (m *Machine) repeat(l *link) {
	for i := range int(l.sent - l.acked) {
		m.out.Messages = append(m.out.Messages, l.unacked[(l.first+i)%len(l.unacked)])
		m.out.Messages[len(m.out.Messages)-1].Ack = l.received
		m.counters.Resent++
	}
}

// accept decides on a numbered message: true exactly once for each, in order.
func (m *Machine) accept(l *link, msg *protocol.Message) bool {
	l.heard = m.now
	l.ack(msg.Ack)
	switch {
	case msg.Seq == l.received+1:
		l.received++
		return true
	case msg.Seq <= l.received:
		m.counters.Stale++ // a repetition
	default:
		m.counters.Stale++
		m.askRepeat(l)
	}
	return false
}

// askRepeat asks the peer for what is missing, at most once a heartbeat for the
// same gap.
func (m *Machine) askRepeat(l *link) {
	if l.askedAfter == l.received+1 && m.now < l.askedAt+m.timing.Heartbeat {
		return
	}
	l.askedAfter, l.askedAt = l.received+1, m.now
	m.emitOn(l, protocol.KindResend)
}

// linkOf finds the link that a message belongs to.
func (m *Machine) linkOf(msg *protocol.Message) *link {
	if p := m.parent; p != nil && msg.From == p.peer && msg.Link == p.gen {
		return p
	}
	if l := m.child(msg.From); l != nil && l.gen == msg.Link {
		return l
	}
	return nil
}

// child returns the link to a child, or nil.
func (m *Machine) child(n protocol.Node) *link {
	i, ok := slices.BinarySearchFunc(m.children, n, func(l *link, n protocol.Node) int { return l.peer.Compare(n) })
	if !ok {
		return nil
	}
	return m.children[i]
}
