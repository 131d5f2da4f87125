package padme

import "padme/qosmutex/protocol"

// A waiter that has died must not block the token for as long as its session would
// last. So a grant on which nobody but its target can enter is provisional. The root
// names an instant on the target's clock: half a TTL after the target sent its newest
// heartbeat that the root has received. The target enters only before that instant, and
// its hold ends there unless the root confirms it. Heartbeats name the holds that are
// not confirmed; any answer to such a heartbeat confirms them. The root received the
// heartbeat no earlier than it was sent, so half a grace after it did, the target is
// inside only if it was confirmed. If it was not, the root regenerates the token.
//
// Why any answer will do: the target takes it only before the instant named. So the
// root received the heartbeat before half a grace was over, when the grant was still
// live, and kept it. A later root never ends the grant before the target's session is
// over or the target has answered a Sync.

// provisionalSpan is how long after a heartbeat a hold needs no confirmation.
func (m *Machine) provisionalSpan() protocol.Duration { return m.timing.TTL / 2 }

// quiet reports whether the origin of a request, or a relay on the way to it, may have
// died: the root has not heard from it for clearly longer than the longest heartbeat, a
// quarter of the TTL. Or, as the heartbeats say, the way to it is another one. Such a
// request is not served until a heartbeat comes.
func (m *Machine) quiet(e *entry) bool {
	s := m.sessionOf(e.id.Node)
	for range maxDepth {
		switch {
		case s == nil:
			return !m.inheriting() // else it may not have named its session yet
		case m.silent(s):
			return true
		case s.parent.IsZero():
			return false
		case s.parent == m.self:
			return s.node != e.from.peer
		}
		s = m.sessionOf(s.parent)
	}
	return false
}

func (m *Machine) silent(s *memberSession) bool { return m.now-s.heard > 3*m.timing.TTL/8 }

// makeProvisional decides whether the grant of r that is about to be sent is
// provisional: only its target can enter on it, for it has one fence, and the root
// knows a heartbeat of the target, whose messages do not take long. It returns when such
// a grant ends on our clock, or 0.
func (m *Machine) makeProvisional(r *resource) protocol.Time {
	t := &r.tok
	s := m.sessionOf(t.target.Node)
	if t.retain || !t.sole() || s == nil || s.slow || s.sent+m.provisionalSpan() <= 0 {
		return 0
	}
	t.until = s.sent + m.provisionalSpan()
	due := s.heard + m.grace()/2 + 1
	m.nextDue = min(m.nextDue, due)
	return due
}

// confirm lets the grants on which a heartbeat names a hold last as long as the
// session. Only the root does this.
func (m *Machine) confirm(msg *protocol.Message) {
	for i := range msg.Tokens {
		ts := &msg.Tokens[i]
		if r := m.find(ts.Resource); r != nil && r.tok.phase == below && r.tok.grant == ts.Grant && r.tok.target.Node == msg.From {
			r.tok.until = 0
			e := protocol.Entry{ID: ts.Target, Fence: ts.Fence}
			if h := r.tok.holder; h == nil || h.entry != e { // else a Report has told its priority, also of a grant that was inherited
				r.tok.heldBy(msg.From, holder{e, r.tok.prio, ts.Client})
			}
		}
	}
}

// ends reports whether the grant of t, that we gave, as the root, or on which we hold,
// ends unless it is confirmed.
func (m *Machine) ends(t *token) bool {
	return t.unconfirmed() || t.until != 0 && t.phase == below && m.role == protocol.Root
}

// expireProvisional ends what was not confirmed in time. The root regenerates the token.
// The holder sends it home, because a root that took over, or whose confirmation was
// lost, waits for it.
func (m *Machine) expireProvisional() {
	if m.now < m.nextDue {
		return
	}
	m.nextDue = protocol.Never
	for _, r := range m.resources {
		switch t := &r.tok; {
		case !m.ends(t):
		case m.now < t.until || m.role == protocol.Root && t.phase == below && !m.heardSince(t.until): // as for sessions
			m.nextDue = min(m.nextDue, t.until)
		case m.role == protocol.Root:
			m.unconfirmedInTime(r)
		default:
			m.lost(r)
			_ = m.leave(t.inside.ref)
		}
	}
}

// tooLate reports whether a provisional grant came too late to be confirmed if we enter
// now.
func (m *Machine) tooLate(t *token) bool { return t.until != 0 && m.now+m.answerTime() > t.until }

// answerTime is the longest time from a heartbeat to its answer with which grants are
// provisional.
func (m *Machine) answerTime() protocol.Duration { return m.timing.TTL / 16 }

// unconfirmed reports whether we are inside on a provisional grant that was not confirmed.
func (t *token) unconfirmed() bool { return t.phase == using && t.until != 0 }

// askSoon schedules the next heartbeat for a hold that is not confirmed: after an eighth
// of the time that is left, so that short holds need none and others get their
// confirmation even if several heartbeats are lost.
func (m *Machine) askSoon(t *token) {
	m.confirmAt = min(m.confirmAt, m.now+max((t.until-m.now)/8, m.answerTime()/4))
}

// askForConfirmation sends the heartbeat that askSoon has scheduled.
func (m *Machine) askForConfirmation() {
	if m.now < m.confirmAt {
		return
	}
	m.confirmAt = protocol.Never
	for _, r := range m.resources {
		if r.tok.unconfirmed() {
			m.askSoon(&r.tok)
		}
	}
	if m.confirmAt != protocol.Never {
		m.beat()
	}
}

// confirmed takes the answer to a heartbeat that we sent at the instant sent. It named
// every unconfirmed hold that began before.
func (m *Machine) confirmed(sent protocol.Time) {
	for _, r := range m.resources {
		if t := &r.tok; t.unconfirmed() && t.entered < sent {
			m.confirmHold(t)
		}
	}
}

// confirmHold lets our hold last as long as our session.
func (m *Machine) confirmHold(t *token) {
	t.until = 0
	m.out.Confirmed = append(m.out.Confirmed, t.inside.ref)
}
