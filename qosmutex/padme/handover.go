package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// A planned change of the root is the root's own write to the record: it stops
// granting (Yield), has the record name its successor, and once that is known to be
// written (Succeeded) it sends the successor what it knows and becomes a member. That
// message only saves time: without it the successor waits as after a death.

// considerHandover wishes for another root when a child has outranked this one for
// long enough.
func (m *Machine) considerHandover() {
	best := m.bestChild()
	if m.outrankedFor(best != nil && !m.isFixedRoot && rank(best.priority, best.peer, m.priority, m.self) <= 0) {
		m.wishSuccessor(best)
	}
}

// wishSuccessor asks for a change of the root, if it can be made now: what is unknown
// cannot be handed over.
func (m *Machine) wishSuccessor(l *link) {
	if l != nil && m.acting() && !m.inheriting() {
		m.out.Successor = l.peer
	}
}

// bestChild is the most important child that could be the root. Not one that has said
// goodbye, that has left beacons unanswered for a heartbeat and may be dead, or that has sent
// nothing yet, and so may not have taken us for its parent; and one that leaves would
// hand the root back.
func (m *Machine) bestChild() *link {
	var best *link
	for _, l := range m.children {
		s := m.sessionOf(l.peer)
		if l.leaving || l.parting || l.received == 0 || l.mute != 0 && m.now-l.mute > m.heartbeat() || s == nil || s.goodbye || !s.candidate {
			continue
		}
		if best == nil || rank(l.priority, l.peer, best.priority, best.peer) < 0 {
			best = l
		}
	}
	return best
}

// yield stops a root that is about to be succeeded. Its own holds go on under its lease.
func (m *Machine) yield() error {
	if !m.acting() || m.isFixedRoot {
		return m.badInput("not a root that can yield")
	}
	m.authority.yielding = true
	m.out.Changed = true
	return nil
}

// succeeded hands what we know to the next root, and makes us a member.
func (m *Machine) succeeded(term uint64, n protocol.Node) error {
	if m.role != protocol.Root || !m.authority.yielding || term <= m.epoch.Number || n.IsZero() || n == m.self {
		return m.badInput("not a root that has yielded to another")
	}
	next := protocol.Epoch{Number: term, Tie: n.Tie()}
	msg := m.emit(protocol.KindHandover, n)
	msg.Epoch, msg.Root = next, n
	for _, r := range m.resources {
		t := &r.tok
		ts := protocol.TokenState{Resource: r.q.resource, Out: t.phase != home, Grant: t.grant, Target: t.target}
		if t.phase == using || t.down != nil {
			ts.Path = []protocol.Node{m.self} // else we don't know its way either
		}
		msg.Tokens = append(msg.Tokens, ts)
	}
	for _, s := range m.members {
		if s.node != n && !s.goodbye {
			msg.Sessions = append(msg.Sessions, protocol.SessionState{Node: s.node, Number: s.number, Priority: s.priority, Parent: protocol.Node{ID: s.parent}})
		}
	}
	msg.Sessions = append(msg.Sessions, protocol.SessionState{Node: m.self, Number: m.lastSession + 1, Priority: m.priority})
	m.becomeMember(n, next)
	return nil
}

// becomeMember makes a former root a member without a parent, under another root or
// one that is not known yet. Its session ends as those do that it gave: TTL after the
// last renewal.
func (m *Machine) becomeMember(root protocol.Node, e protocol.Epoch) {
	if l := m.child(root); l != nil {
		m.children = slices.DeleteFunc(m.children, func(c *link) bool { return c == l })
		for _, e := range slices.Clone(m.requests) {
			if m.takeBack(e, l) {
				m.remove(e) // it is in the successor's own queue
			}
		}
		for q := range m.eachQueue {
			q.forget(l)
		}
		for _, r := range m.resources {
			if t := &r.tok; t.phase == below && t.down == l {
				t.phase, t.down = away, nil
			}
		}
	}
	for _, r := range m.resources {
		t := &r.tok
		switch {
		case t.phase == home:
			t.phase = away
		case t.phase == below && t.down == nil:
			t.phase, t.passed = away, nil // passed was whom to ask
		}
		t.recovery = nil
		m.fences = max(m.fences, t.next)
	}
	m.session = session{number: m.lastSession + 1, until: m.heldUntil(), asked: m.session.asked}
	m.role, m.roll, m.authority = protocol.Joining, roll{}, authority{}
	m.outranks = 0
	m.root, m.reported, m.out.Changed = root, false, true
	if e != m.epoch {
		m.turn(e, root)
	}
	m.joinAgain() // the successor will offer a place
}

// onHandover hears what the root before us knew. It may come before we are appointed,
// and then says that the record names us.
func (m *Machine) onHandover(msg *protocol.Message) error {
	switch {
	case msg.Epoch.Tie != m.self.Tie():
		return m.invalid(msg, "not a term of ours")
	case m.role != protocol.Root && msg.Epoch.Number > m.epoch.Number && msg.From == m.root:
		m.early = newHandover(msg)
		m.out.Summoned = true
		return nil
	case m.inheriting() && msg.Epoch == m.epoch && msg.From == m.authority.before:
		m.takeOver(newHandover(msg))
		return nil
	}
	return m.stale(msg, "not from the root before us")
}

// handover is what a former root told us.
type handover struct {
	from     protocol.Node
	epoch    protocol.Epoch // of ours
	tokens   []protocol.TokenState
	sessions []protocol.SessionState
}

// newHandover copies what a message says: its memory is the caller's.
func newHandover(msg *protocol.Message) *handover {
	h := &handover{msg.From, msg.Epoch, slices.Clone(msg.Tokens), slices.Clone(msg.Sessions)}
	for i := range h.tokens {
		h.tokens[i].Path = slices.Clone(h.tokens[i].Path)
	}
	return h
}

// takeEarly takes over what came before we were appointed.
func (m *Machine) takeEarly() {
	h := m.early
	m.early = nil
	if h != nil && m.inheriting() && h.epoch == m.epoch && h.from == m.authority.before {
		m.takeOver(h)
	}
}

// takeOver takes over the sessions, and the tokens that nobody has reported. The
// former root grants nothing since the record names us, so a token that was at home
// there still is free, and one that it does not name was never asked for.
func (m *Machine) takeOver(h *handover) {
	for i := range h.sessions {
		s := &h.sessions[i]
		if s.Node == m.self || m.sessionOf(s.Node) != nil || len(m.members) >= maxSessions {
			continue
		}
		m.lastSession = max(m.lastSession, s.Number)
		m.addSession(&memberSession{
			node: s.Node, number: s.Number, priority: s.Priority, parent: s.Parent.ID,
			asked: askedUnsaid, // who asks us for a session has left the old root, and takes no answer of it
			heard: m.now, deadline: m.now + m.grace(), beaten: true,
		})
		m.nextExpiry = min(m.nextExpiry, m.now+m.grace())
	}
	for i := range h.tokens { // while a token that we have not heard of counts as unreported
		if name := h.tokens[i].Resource; m.known(name) {
			m.resource(name)
		}
	}
	m.authority.inherit = 0
	for i := range h.tokens {
		if ts := &h.tokens[i]; ts.Out && m.known(ts.Resource) {
			m.takeToken(m.resource(ts.Resource), ts)
		}
	}
	m.inherited()
}

// takeToken takes over a token that is out. Who is at the beginning of its way, the
// former root, is asked what became of it; everybody, if that is not known.
func (m *Machine) takeToken(r *resource, ts *protocol.TokenState) {
	t := &r.tok
	if t.recovery == nil || !t.recovery.unreported {
		return // its holder has reported it
	}
	t.recovery = nil
	t.grant, t.target, t.passed = ts.Grant, ts.Target, nil
	if len(ts.Path) > 0 {
		first := ts.Path[0]
		t.passed = &first
	}
	m.markServed(ts.Target)
	m.recover(r)
}
