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
	if s := m.sessionOf(n); s != nil && m.trust && m.acting() {
		m.endSession(s)
	}
}
