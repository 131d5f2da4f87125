package padme

import (
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// sessions is who may hold: our own session as a member, and at the root those that it
// gave and what entitles it to give any.
type sessions struct {
	trust       bool              // who is suspected has ended
	candidate   bool              // we can be appointed the root
	barred      bool              // but not now
	called      protocol.Time     // as a candidate: when we last sent a heartbeat to ourselves
	echo        protocol.Time     // when we sent the newest one that came back
	isFixedRoot bool              // we are the root for ever (Config.Root)
	reported    bool              // the root of this term knows our session, and what we hold
	session     session           // at a member
	former      *predecessor      // until we have one
	authority   authority         // at the root
	roster                        // of the members, at the root
	early       *protocol.Message // a Handover that came before we are appointed; nil: none

	confirmAt protocol.Time // when to ask for confirmation of our holds; Never: none needs it
}

func (s *sessions) clone() sessions {
	c := *s
	c.members, c.authority.awaited, c.former = each(s.members, copied), slices.Clone(s.authority.awaited), s.former.clone()
	return c
}

func (s *sessions) write(w *canonical.Writer, c *core) {
	w.Flags(s.reported, s.early != nil, s.barred)
	if s.candidate && !s.isFixedRoot {
		w.Age(s.called, 2*c.timing.TTL)
		w.Age(s.echo, 2*c.timing.TTL)
	}
	w.Left(s.confirmAt)
	s.former.write(w)
	w.Uint(s.session.number, s.session.asked)
	w.Is(s.session.slow)
	if s.session.number != 0 {
		w.Left(s.session.until)
	}
	if s.early != nil {
		w.Message(s.early)
	}
	if c.role == protocol.Root {
		s.authority.write(w, c)
		w.Is(s.isFixedRoot)
		s.roster.write(w, c)
	}
}

// memberSession is a session as the root sees it.
type memberSession struct {
	node      protocol.Node
	number    uint64
	priority  int64
	parent    protocol.Node // in the tree
	sent      protocol.Time // when the heartbeat that counts was sent, on the member's clock
	heard     protocol.Time // when that heartbeat was received
	deadline  protocol.Time // expires then: a grace after that heartbeat came
	asked     uint64        // how many sessions it asked for
	goodbye   bool
	leaves    bool           // it has given everything back, and its goodbye follows
	candidate bool           // can be the root
	replaces  uint64         // the incarnation before, whose session ends when this one knows of its own; 0: none
	after     protocol.Grant // the newest grant when it began; zero: unknown, another root gave it
	slow      bool           // messages to it take long: its grants are not provisional
}

// roster is what a root knows of the sessions of all members.
type roster struct {
	members     []*memberSession // by node
	lastSession uint64
	nextExpiry  protocol.Time // no session expires before
}

func (r *roster) search(n protocol.Node) (int, bool) {
	return slices.BinarySearchFunc(r.members, n, func(s *memberSession, n protocol.Node) int { return s.node.Compare(n) })
}

func (r *roster) write(w *canonical.Writer, c *core) {
	w.Uint(r.lastSession, uint64(len(r.members)))
	first := protocol.Never
	for _, o := range r.members {
		w.Node(o.node)
		w.Uint(o.number, o.asked)
		w.Int(o.priority)
		w.Node(o.parent)
		w.Age(o.deadline, 2*c.timing.TTL) // a root that is cut off keeps what is over
		w.Age(o.sent, c.timing.TTL)       // an answer as old as that is too late
		w.Age(o.heard, c.timing.TTL/2)    // who was not heard for that long is silent
		w.Flags(o.goodbye, o.leaves, o.candidate, o.slow)
		w.Uint(o.replaces)
		first = min(first, o.deadline)
	}
	w.Flags(r.nextExpiry <= first) // that bound only saves work
}

const (
	maxSessions = 1 << 16
	maxOfOne    = 8 // sessions of one participant's incarnations, of which a member may invent any number
)

// isOften reports whether another incarnation of n would be one too many. Those before it may
// hold until their sessions are over, but not one that said goodbye: it makes room.
func (m *Machine) isOften(n protocol.Node) bool {
	first, _ := m.roster.search(protocol.Node{ID: n.ID})
	last := first + maxOfOne - 1
	if last >= len(m.members) || m.members[last].node.ID != n.ID {
		return false
	}
	for _, s := range m.members[first : last+1] {
		if s.goodbye {
			m.endSession(s)
			m.tellNeighbors(&roster{members: []*memberSession{s}})
			return false
		}
	}
	return true
}

// onBeat answers a heartbeat. Only the root answers; what has expired is over. The
// session that it answers outlives the newest renewal of the root's lease by no more
// than a TTL, so that a later root knows when it is over.
func (m *Machine) onBeat(msg *protocol.Message) error {
	if !m.acting() {
		return m.stale(msg, "not the root")
	}
	s, begins := m.sessionOf(msg.From), false
	switch {
	case s == nil && len(m.members) >= maxSessions:
		m.exceeded(protocol.LimitSessions, msg.From.ID, maxSessions)
		return m.invalid(msg, "too many sessions")
	case s == nil && m.isOften(msg.From): // it asks again
		m.exceeded(protocol.LimitIncarnations, msg.From.ID, maxOfOne)
		return m.stale(msg, "too many incarnations, until the sessions of some are over")
	case s == nil && msg.Epoch != m.epoch && m.inheriting():
		return m.stale(msg, "of before this term")
	case s == nil && msg.Session != 0 && m.inheriting():
		if slices.ContainsFunc(msg.Tokens, m.isForged) {
			return m.invalid(msg, "holds with fences that no root can have handed out")
		}
		s = m.adoptSession(msg)
	case msg.Session == 0 && s != nil && msg.Attempt < s.asked:
		return m.stale(msg, "an old question")
	case msg.Session == 0 && (s == nil || s.asked != msg.Attempt || msg.Sent-s.sent >= m.timing.TTL):
		if s != nil { // it has none, and no answer of ours is on the way that it would still take
			m.endSession(s)
		}
		s, begins = m.newSession(msg), true
		m.succeed(s, msg)
	case s == nil || msg.Session != 0 && s.number != msg.Session:
		no := m.emit(protocol.KindBeatAck, msg.From)
		no.Flags, no.Session, no.Sent, no.Attempt = protocol.FlagExpired, msg.Session, msg.Sent, msg.Attempt
		no.TTL = m.timing.TTL
		return nil
	}
	if msg.Session != 0 || begins { // else it does not hear our answers, and must not keep the session by asking
		again := m.silent(s) || s.parent != msg.Parent
		s.sent, s.heard, s.deadline = msg.Sent, m.now, m.now+m.grace()
		if again {
			defer m.serveAll() // its requests were quiet
		}
	}
	if msg.Session != 0 && s.replaces != 0 {
		m.replaced(s)
	}
	moved := s.parent != msg.Parent
	s.priority, s.parent, s.asked = msg.Priority, msg.Parent, msg.Attempt
	if moved {
		m.followMoves()
	}
	s.candidate, s.slow = msg.Flags&protocol.FlagCandidate != 0, msg.Flags&protocol.FlagSlow != 0
	m.confirm(msg)
	m.nextExpiry = min(m.nextExpiry, s.deadline)
	yes := m.emit(protocol.KindBeatAck, msg.From)
	yes.Session, yes.Sent, yes.Attempt, yes.TTL = s.number, s.sent, msg.Attempt, m.timing.TTL
	yes.Valid, yes.Renewal, yes.Register = m.validFor(), m.authority.renewal, m.domain
	if msg.Session == 0 {
		yes.Grant, yes.Tokens = m.newestGrant(), m.goesOn(msg)
	}
	if s.candidate {
		yes.Rank = m.rankOf(s)
	}
	return nil
}

// isForged reports whether a hold of an earlier term has a fence that no root of then can
// have handed out. One of this term may be reported before its session is: its grant
// went to a child that had not heard of the term yet.
func (m *Machine) isForged(ts protocol.TokenState) bool {
	return m.old(ts.Grant) && ts.Fence >= m.fences
}

// rankOf counts the candidates that come before s.
func (m *Machine) rankOf(s *memberSession) uint32 {
	n := uint32(0)
	for _, o := range m.members {
		if o.candidate && !o.goodbye && comparePlace(o.priority, o.node, s.priority, s.node) < 0 {
			n++
		}
	}
	return n
}

// validFor is for how long a session may be valid that we answer now: what is left of
// a TTL since our last renewal, also if our clock is slow.
func (m *Machine) validFor() protocol.Duration {
	if m.authority.renewed == protocol.Never {
		return m.timing.TTL
	}
	age := protocol.Duration(float64(m.now-m.authority.renewed)*(1+m.timing.Drift)/(1-m.timing.Drift)) + 1
	return m.timing.TTL - min(age, m.timing.TTL)
}

func (m *Machine) newSession(msg *protocol.Message) *memberSession {
	m.lastSession++
	s := &memberSession{node: msg.From, number: m.lastSession, heard: m.now - m.timing.TTL, after: m.newestGrant()} // heard will be now
	m.addSession(s)
	return s
}

// newestGrant names the last grant that we gave in this term.
func (m *Machine) newestGrant() protocol.Grant {
	return protocol.Grant{Epoch: m.epoch, Number: m.grants}
}

func (m *Machine) addSession(s *memberSession) {
	m.out.Begun = append(m.out.Begun, s.node)
	m.touch(protocol.Any)
	m.shown(s.node)
	i, _ := m.roster.search(s.node)
	m.members = slices.Insert(m.members, i, s)
}

// sessionOf finds the live session of a member, or nil.
func (m *Machine) sessionOf(n protocol.Node) *memberSession {
	i, ok := m.roster.search(n)
	if !ok {
		return nil
	}
	return m.members[i]
}

// onGoodbye ends a session soon: what its holder sent before may still be on
// its way through the tree. It takes no step any more, so a search that waits for its
// answer goes on at once. From the root, it says that a neighbor of ours has ended.
func (m *Machine) onGoodbye(msg *protocol.Message) error {
	if m.role != protocol.Root && msg.From == m.root {
		m.unlink(msg.Ended)
		return nil
	}
	if !msg.Ended.IsZero() {
		return m.stale(msg, "of a root before us, about another")
	}
	m.shown(msg.From)
	s := m.sessionOf(msg.From)
	if m.role != protocol.Root || s == nil || s.number != msg.Session {
		return m.stale(msg, "no such session")
	}
	s.goodbye = true
	s.deadline = min(s.deadline, m.now+m.heartbeat())
	m.nextExpiry = min(m.nextExpiry, s.deadline)
	m.out.Ended = append(m.out.Ended, s.node)
	m.continueSearches(s)
	return nil
}

// expireSessions ends, at the root, the sessions that were silent for too long. A root that is
// cut off ends none: a member of whom it hears nothing may have gone over, with what it holds, to
// a root of another register (see another). So each must have been silent while we heard ourselves.
func (m *Machine) expireSessions() {
	if m.now < m.nextExpiry {
		return
	}
	m.nextExpiry = protocol.Never
	for _, s := range m.members {
		m.nextExpiry = min(m.nextExpiry, s.deadline)
	}
	if m.now < m.nextExpiry || !m.heardSince(m.nextExpiry) {
		return
	}
	sure := min(m.now, m.heardItself())
	m.nextExpiry = protocol.Never
	var ended roster
	for _, s := range m.members {
		if sure >= s.deadline {
			ended.members = append(ended.members, s)
		} else {
			m.nextExpiry = min(m.nextExpiry, s.deadline)
		}
	}
	m.members = slices.DeleteFunc(m.members, func(s *memberSession) bool { return sure >= s.deadline })
	for _, s := range ended.members {
		m.ended(s)
	}
	m.tellNeighbors(&ended)
}

// tellNeighbors tells the neighbors in the tree of members that have ended: their children
// look for another parent at once, and their parents make room for one of them. If that
// message is lost, they do so when they have heard nothing for long enough. All of them at
// once: one by one they would cost the square of their number.
func (m *Machine) tellNeighbors(ended *roster) {
	if len(ended.members) == 0 {
		return
	}
	for _, s := range m.members {
		if _, ok := ended.search(s.parent); ok {
			m.emit(protocol.KindGoodbye, s.node).Ended = s.parent
		}
	}
	for _, o := range ended.members {
		if s := m.sessionOf(o.parent); s != nil {
			m.emit(protocol.KindGoodbye, s.node).Ended = o.node
		}
	}
}

// unlink ends our link to a participant that has ended.
func (m *Machine) unlink(n protocol.Node) {
	if l := m.child(n); l != nil {
		m.dropChild(l)
	}
	if m.parent != nil && m.parent.peer == n {
		m.orphan()
	}
}

// endSession ends a member's session for good.
func (m *Machine) endSession(s *memberSession) {
	if i, ok := m.roster.search(s.node); ok {
		m.members = slices.Delete(m.members, i, i+1)
	}
	m.ended(s)
}

// ended recovers the tokens that a member may have had whose session is over. Its link to us
// ends with it, and makes room for another child.
func (m *Machine) ended(s *memberSession) {
	if !s.goodbye {
		m.counters.Expiries++
	}
	m.out.Ended = append(m.out.Ended, s.node)
	m.unlink(s.node)
	m.continueSearches(s)
	known, isInner := false, false // looked up once, if need be
	inner := func() bool {
		if !known {
			known, isInner = true, slices.ContainsFunc(m.members, func(o *memberSession) bool { return o.parent == s.node })
		}
		return isInner
	}
	for _, r := range m.resources {
		if t := &r.tok; t.phase == below && s.after.Compare(t.grant) < 0 && (t.target.Node == s.node || inner()) {
			m.recover(r)
		}
	}
}
