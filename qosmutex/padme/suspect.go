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
	if m.doubts(n.ID) && m.join.doubt == n {
		m.doubtless()
	}
	if m.ballot != nil && m.ballot.root == n {
		m.ballot.until = min(m.ballot.until, m.now)
	}
}

// abandoned reports whether nobody has offered us a place for so long that every
// voter would have stood for the root, and we were told to go on then.
func (m *Machine) abandoned() bool {
	return m.goOn && m.role == protocol.Joining && m.join != nil && m.settings.Version > 0 && m.under == "" &&
		m.now-m.join.since >= 2*m.grace
}

// refound founds the topic anew, unless there is a root or a founder after all. No
// majority stands behind that: fences are above what we know of, and above what
// anybody can have handed out since our FenceFloor; and a former root that is only cut
// off may go on beside us.
func (m *Machine) refound() {
	m.fences = m.topFence()
	if m.ballot != nil {
		m.fences = max(m.fences, m.ballot.fences)
		m.ballot.standing = standing{}
	}
	m.raiseFloor()
	m.listen()
}
