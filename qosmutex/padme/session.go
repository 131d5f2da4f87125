package padme

import (
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// session is what entitles a member to hold: the root answered a heartbeat that
// was sent less than TTL ago on our own clock.
type session struct {
	number uint64        // 0: none
	until  protocol.Time // valid below this
	asked  uint32        // how many sessions were asked for
	alone  bool          // the root that answered last decides alone
}

// memberSession is a session as the root sees it.
type memberSession struct {
	node     protocol.Node
	number   uint64
	priority int64
	parent   string        // of whichever incarnation
	sent     protocol.Time // when the heartbeat that counts was sent, on the member's clock
	deadline protocol.Time // lapses then: a grace after that heartbeat came
	asked    uint32        // how many sessions it asked for
	goodbye  bool
	rooted   bool           // keeps its place in the tree
	beats    uint8          // heartbeats that came, as far as they were counted
	after    protocol.Grant // the newest grant when it began; zero: unknown, another root gave it
}

// roll is what a root knows of the sessions of all members.
type roll struct {
	sessions    []*memberSession // by node
	lastSession uint64
	nextLapse   protocol.Time // no session lapses before
}

const (
	maxSessions = 1 << 16
	askedUnsaid = math.MaxUint32 // of a session that was handed over
)

// heartbeat is the configured interval, or less if the topic's TTL is short.
func (m *Machine) heartbeat() protocol.Duration {
	return min(m.timing.Heartbeat, m.timing.TTL/4)
}

// setTTL takes over the TTL of the topic.
func (m *Machine) setTTL(ttl protocol.Duration) {
	if ttl != m.timing.TTL {
		m.timing.TTL = ttl
		m.grace = m.timing.Grace()
	}
}

// beat tells the root that we live, or asks it for a session.
func (m *Machine) beat() {
	to := m.root
	if m.role == protocol.Root || m.role == protocol.Founding {
		to = m.self // for the lease
	}
	if to.IsZero() {
		return
	}
	msg := m.emit(protocol.KindBeat, to)
	msg.Session, msg.Sent, msg.Number, msg.Priority = m.session.number, m.now, uint64(m.session.asked), m.priority
	if m.parent != nil {
		msg.Peer = m.parent.peer
	}
	if m.under != "" {
		msg.Flags |= protocol.FlagRooted
	}
	if m.session.number != 0 && !m.reported {
		msg.Tokens = m.holds()
	}
}

// onBeat answers a heartbeat. Only the root answers; a lapse is final.
func (m *Machine) onBeat(msg *protocol.Message) error {
	if !m.acting() {
		return m.stale(msg, "not the root")
	}
	s := m.sessionOf(msg.From)
	switch {
	case s == nil && msg.Session != 0 && m.inheriting():
		if msg.Epoch != m.epoch || len(m.sessions) >= maxSessions {
			return m.stale(msg, "of before the election")
		}
		if slices.ContainsFunc(msg.Tokens, func(ts protocol.TokenState) bool { return ts.Fence > maxFence }) {
			return m.invalid(msg, "holds with fences that cannot be")
		}
		s = m.adoptSession(msg)
	case msg.Session == 0 && s != nil && s.asked != askedUnsaid && uint32(msg.Number) < s.asked:
		return m.stale(msg, "an old question")
	case msg.Session == 0 && (s == nil || s.asked != uint32(msg.Number) || msg.Sent-s.sent >= m.timing.TTL):
		if s != nil { // it has none, and no answer of ours is on the way that it would still take
			m.lapsed(s)
		}
		if s = m.newSession(msg); s == nil {
			return m.invalid(msg, "too many sessions")
		}
	case s == nil || msg.Session != 0 && s.number != msg.Session:
		no := m.emit(protocol.KindBeatAck, msg.From)
		no.Flags, no.Session, no.Sent, no.Number = protocol.FlagLapsed, msg.Session, msg.Sent, msg.Number
		no.TTL = m.timing.TTL
		return nil
	}
	if msg.Session != 0 || s.beats == 0 { // else it does not hear our answers: who never has a session cannot keep it
		s.sent, s.deadline = msg.Sent, m.now+m.grace
	}
	s.priority, s.parent, s.asked = msg.Priority, msg.Peer.ID, uint32(msg.Number)
	s.rooted = msg.Flags&protocol.FlagRooted != 0
	s.beats = min(s.beats, math.MaxUint8-1) + 1
	m.nextLapse = min(m.nextLapse, s.deadline)
	yes := m.emit(protocol.KindBeatAck, msg.From)
	yes.Session, yes.Sent, yes.Number, yes.TTL = s.number, s.sent, msg.Number, m.timing.TTL
	if msg.Session == 0 {
		yes.Grant = m.newestGrant()
	}
	if m.alone() {
		yes.Flags |= protocol.FlagAlone
		if !s.rooted { // it may found the topic after us, and begins above that
			top := m.topFence()
			yes.Fences = protocol.Fences{Next: top, End: top}
		}
	}
	return nil
}

func (m *Machine) newSession(msg *protocol.Message) *memberSession {
	if len(m.sessions) >= maxSessions {
		return nil
	}
	m.lastSession++
	s := &memberSession{node: msg.From, number: m.lastSession, after: m.newestGrant()}
	m.addSession(s)
	return s
}

// newestGrant names the last grant that we gave, or the root before us in this view.
func (m *Machine) newestGrant() protocol.Grant {
	return protocol.Grant{Epoch: m.epoch, Number: m.grants}
}

func (m *Machine) addSession(s *memberSession) {
	i, _ := slices.BinarySearchFunc(m.sessions, s.node, func(s *memberSession, n protocol.Node) int { return s.node.Compare(n) })
	m.sessions = slices.Insert(m.sessions, i, s)
}

// sessionOf finds the live session of a member, or nil.
func (m *Machine) sessionOf(n protocol.Node) *memberSession {
	if m.roll == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(m.sessions, n, func(s *memberSession, n protocol.Node) int { return s.node.Compare(n) })
	if !ok {
		return nil
	}
	return m.sessions[i]
}

// onBeatAck extends our session from the instant at which we sent the heartbeat. A new
// session is younger than the grants that the root has given by then: we enter on none
// of those, nor pass one down, so the root need not ask us for them.
func (m *Machine) onBeatAck(msg *protocol.Message) error {
	s := &m.session
	switch {
	case m.role == protocol.Root || msg.From != m.root || msg.Number != uint64(s.asked) || msg.Sent > m.now || msg.TTL <= 0:
		return m.stale(msg, "not an answer to our heartbeat")
	case msg.Flags&protocol.FlagLapsed != 0:
		if msg.Session == s.number && s.number != 0 {
			m.lapse()
		}
		return nil
	case s.number != 0 && s.number != msg.Session || msg.Session == 0:
		return m.stale(msg, "another session")
	case msg.Sent+msg.TTL <= m.now:
		return m.stale(msg, "too late")
	case s.number == 0 && msg.Grant.Epoch != msg.Epoch:
		return m.stale(msg, "not the beginning of a session")
	}
	if s.number == 0 {
		m.bind(msg.Grant)
	}
	m.setTTL(msg.TTL)
	m.forgetHandover()
	s.number, s.alone = msg.Session, msg.Flags&protocol.FlagAlone != 0
	if s.alone && msg.Fences.End > 0 {
		m.raiseFloors(msg.Fences.End-1, 0)
	}
	if msg.Epoch.View() == m.epoch.View() { // else this root answered in an earlier view
		m.reported = true
	}
	s.until = max(s.until, msg.Sent+msg.TTL)
	m.progressJoin()
	return nil
}

// lapse ends our session: every hold is lost and every token dropped. The
// machine joins anew, under a new session.
func (m *Machine) lapse() {
	m.count().lapses++
	m.session = session{asked: m.session.asked + 1, alone: m.session.alone}
	losses := len(m.out.Losses)
	for _, r := range m.resources {
		t := &r.tok
		if e := t.inside; e != nil {
			m.lose(r, e)
		}
		if t.phase != away {
			t.phase, t.down = away, nil
			t.bind(t.grant)
		}
	}
	if len(m.out.Losses) > losses {
		m.counters.lapsesIn = min(m.counters.lapsesIn, math.MaxUint16-1) + 1
	}
	m.parent = nil
	if m.join != nil {
		m.join.lost = nil
	}
	if m.departing {
		m.finish()
		return
	}
	handed := m.handed
	orphaned := handed != nil && !m.votes()
	m.forgetHandover()
	if orphaned { // nobody told us of a root after us: begin anew, above what a successor may have done
		// It cannot have made an entry each microsecond; a founder counts as many (FenceFloor).
		m.fences = m.topFence() + uint64((m.now-m.lease.sent)/protocol.Microsecond)
		m.listen()
		if !m.goOn {
			m.join.founding.doubt, m.join.since = handed.peer, m.now
		}
		return
	}
	m.joinAnew()
	m.beat()
}

// lose ends a hold that is no longer valid.
func (m *Machine) lose(r *resource, e *entry) {
	m.count().losses++
	m.out.Losses = append(m.out.Losses, protocol.Loss{Ref: e.ref, ID: e.id, Resource: r.q.resource, Fence: r.tok.fence})
	r.tok.inside, r.tok.toTarget = nil, false
	m.remove(e)
}

// onGoodbye ends a session soon: what its holder sent before may still be on
// its way through the tree. It takes no step any more, so a search that waits for its
// answer goes on at once.
func (m *Machine) onGoodbye(msg *protocol.Message) error {
	s := m.sessionOf(msg.From)
	if m.role != protocol.Root || s == nil || s.number != msg.Session {
		return m.stale(msg, "no such session")
	}
	s.goodbye = true
	if m.reign() != nil && msg.Flags&protocol.FlagRefused == 0 {
		m.pledgeOf(s.node).gone = true
	}
	s.deadline = min(s.deadline, m.now+m.heartbeat())
	m.nextLapse = min(m.nextLapse, s.deadline)
	m.ended(s)
	return nil
}

// expireSessions ends, at the root, the sessions that were silent for too long.
func (m *Machine) expireSessions() {
	if m.now < m.nextLapse {
		return
	}
	m.nextLapse = protocol.Never
	for _, s := range slices.Clone(m.sessions) {
		if m.now >= s.deadline {
			m.lapsed(s)
		} else {
			m.nextLapse = min(m.nextLapse, s.deadline)
		}
	}
}

// lapsed ends a member's session for good and recovers the tokens that it may
// have had.
func (m *Machine) lapsed(s *memberSession) {
	if !s.goodbye {
		m.count().lapses++
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(o *memberSession) bool { return o == s })
	m.ended(s)
	inner := slices.ContainsFunc(m.sessions, func(o *memberSession) bool { return o.parent == s.node.ID })
	for _, r := range m.resources {
		if t := &r.tok; t.phase == below && s.after.Compare(t.grant) < 0 && (inner || t.target.Node == s.node) {
			m.recover(r)
		}
	}
}
