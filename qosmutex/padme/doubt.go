package padme

import "padme/qosmutex/protocol"

// A root that decides alone hands over, and its session ends without a sign of a
// successor. The Handover may be lost, or only what the successor says. No majority
// keeps the two apart, so the former root founds the topic anew only when it knows that
// its successor is no root: it says so, or has come back as a new incarnation, or the
// transport says that it has ended and we were told to trust that.

// doubts reports whether we hold a founding back because of the participant id.
func (m *Machine) doubts(id string) bool {
	return m.role == protocol.Founding && m.join.founding.doubt.ID == id && !m.join.founding.doubt.IsZero()
}

// doubtless lets the founding go on, above what a successor that was the root
// meanwhile may have handed out, and when the sessions that it gave are over.
func (m *Machine) doubtless() {
	j := m.join
	m.fences += uint64((m.now - j.since) / protocol.Microsecond)
	j.founding.doubt = protocol.Node{}
	j.founding.at = m.now + m.listening()
}

// takesOver reports whether we have not said that we will not be the root of e.
func (m *Machine) takesOver(e protocol.Epoch) bool {
	return m.disclaimed == nil || e.Compare(*m.disclaimed) > 0
}

// disclaim answers a former root that waits for a sign of us: we are not the root, and
// will not take that epoch over if its Handover still comes.
func (m *Machine) disclaim(msg *protocol.Message) {
	if m.farAhead(msg.Epoch.Number) {
		return
	}
	if m.takesOver(msg.Epoch) {
		e := msg.Epoch
		m.disclaimed = &e
	}
	no := m.refuseChild(msg, protocol.ReasonClosed)
	no.Flags |= protocol.FlagRefused
	no.Grant.Epoch = msg.Epoch
}
