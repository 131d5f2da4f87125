package padme

import "padme/qosmutex/protocol"

// session is what entitles a member to hold: the root answered a heartbeat that
// was sent less than TTL ago on our own clock.
type session struct {
	number uint64        // 0: none
	until  protocol.Time // valid below this
	asked  uint64        // how many sessions were asked for
	slow   bool          // the last answer took longer than answerTime
}

// beat tells the root that we live, or asks it for a session.
func (m *Machine) beat() {
	if m.candidate { // who does not hear itself must not become the root, nor stay it
		m.emit(protocol.KindBeat, m.self).Sent = m.now
		m.called = m.now
	}
	to := m.root
	if to.IsZero() || m.role == protocol.Root {
		return
	}
	msg := m.emit(protocol.KindBeat, to)
	msg.Session, msg.Sent, msg.Attempt, msg.Priority = m.session.number, m.now, m.session.asked, m.priority
	if m.parent != nil {
		msg.Parent = m.parent.peer
	}
	if m.candidate && !m.barred {
		msg.Flags |= protocol.FlagCandidate
	}
	if m.session.slow {
		msg.Flags |= protocol.FlagSlow
	}
	if m.session.number == 0 {
		m.askToGoOn(msg)
	} else {
		msg.Tokens = m.holds(!m.reported)
		if m.session.until <= m.now+m.timing.TTL-2*m.heartbeat() { // two in turn were not answered
			m.callForRoot()
		}
	}
}

// callForRoot has a participant become the root while we hold or want something: one that
// serves topics on demand may not know this one any more.
func (m *Machine) callForRoot() {
	if m.role == protocol.Member && m.join == nil && len(m.own) > 0 {
		m.emitJoin()
	}
}

// onBeatAck extends our session from the instant at which we sent the heartbeat. A new
// session is younger than the grants that the root has given by then: we enter on none
// of those, nor pass one down, so the root need not ask us for them.
func (m *Machine) onBeatAck(msg *protocol.Message) error {
	s := &m.session
	switch {
	case m.role == protocol.Root || msg.From != m.root || msg.Attempt != s.asked || msg.Sent > m.now || msg.TTL <= 0 || msg.Valid > msg.TTL:
		return m.stale(msg, "not an answer to our heartbeat")
	case msg.Flags&protocol.FlagExpired != 0:
		if msg.Session == s.number && s.number != 0 {
			m.expireOwn()
		}
		return nil
	case s.number != 0 && s.number != msg.Session || msg.Session == 0:
		return m.stale(msg, "another session")
	case msg.Sent+msg.Valid <= m.now:
		return m.stale(msg, "too late")
	}
	if s.number == 0 {
		m.bind(msg.Grant)
		m.goOnAsMember(msg)
		m.askSoonAgain()
		m.out.Changed = true
	}
	m.outlast(msg.TTL)
	s.number, m.domain, m.out.Renewal, m.out.Rank = msg.Session, msg.Register, msg.Renewal, int(msg.Rank)
	m.claimed(msg, true)
	if msg.Epoch == m.epoch { // else this root answered in an earlier term
		m.reported = true
	}
	s.until = max(s.until, msg.Sent+msg.Valid)
	s.slow = m.now-msg.Sent > m.answerTime()
	m.confirmed(msg.Sent)
	m.progressJoin()
	return nil
}

// expireOwn ends our session: every hold is lost and every token dropped. The
// machine joins again, under a new session.
func (m *Machine) expireOwn() {
	m.counters.Expiries++
	m.out.Changed = true
	m.session = session{asked: m.session.asked + 1}
	losses := len(m.out.Losses)
	for _, r := range m.resources {
		m.lose(r)
	}
	if len(m.out.Losses) > losses {
		m.counters.ExpiriesIn++
	}
	m.parent = nil
	if m.join != nil {
		m.join.lost = nil
	}
	if m.departing {
		m.finish()
		return
	}
	m.startJoin(0)
	m.beat()
}

// lose drops the token of r, and ends our hold if we have one, which is no longer valid.
func (m *Machine) lose(r *resource) {
	t := &r.tok
	if t.phase == using {
		m.lost(r)
		m.remove(t.inside)
		t.inside, t.toTarget = nil, false
	}
	if t.phase != away {
		t.phase, t.down = away, nil
		t.bind(t.grant)
	}
}

// lost tells the application that its hold of r is over.
func (m *Machine) lost(r *resource) {
	e := r.tok.inside
	m.counters.Losses++
	m.out.Losses = append(m.out.Losses, protocol.Loss{Ref: e.ref, ID: e.id, Resource: r.q.resource, Fence: r.tok.fence})
}
