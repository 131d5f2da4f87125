package padme

import "padme/qosmutex/protocol"

// suspect hears that the transport believes n to have ended, as from its last
// will. That proves nothing: n may still act on what it knows. So we do at once
// only what does no harm if it is false, and wait for the rest, unless we were
// told to trust it.
func (m *Machine) suspect(n protocol.Node) {
	if m.parent != nil && m.parent.peer == n {
		m.orphan()
	}
	if !m.trust {
		return
	}
	if s := m.sessionOf(n); s != nil && m.acting() {
		m.lapsed(s)
	}
	if m.doubts(n.ID) && m.join.founding.doubt == n {
		m.doubtless()
	}
	if m.ballot != nil && m.ballot.root == n {
		m.ballot.until = min(m.ballot.until, m.now)
	}
}

// abandoned reports whether nobody has offered us a place for so long that every
// voter would have stood for the root, and we may found the topic then: because we
// were told to go on without a majority, or because the root decided alone, so that
// nobody will be elected, and we are one who founds.
func (m *Machine) abandoned() bool {
	if m.role != protocol.Joining || m.join == nil || m.now-m.join.since < 2*m.grace {
		return false
	}
	return m.settings.Version > 0 && m.under == "" && (m.goOn || m.mayReplace())
}

// mayReplace reports whether we may found the topic that we were a member of as we
// would if we were started now: we know of no voters but the root, which by its lease
// stops before it is replaced, and which has not answered us for a session.
func (m *Machine) mayReplace() bool {
	return m.founder != nil && m.founder.Found && m.session.alone && m.session.number == 0 && !m.votes()
}

// refound founds the topic anew, unless there is a root or a founder after all. No
// majority need stand behind that, so fences are above all that we know of; and a former
// root that is only cut off from us may go on beside us, where several voters were left
// out of it.
func (m *Machine) refound() {
	m.fences = m.topFence()
	if m.ballot != nil {
		m.fences = max(m.fences, m.ballot.fences)
		m.ballot.standing = standing{}
	}
	m.listen()
}
