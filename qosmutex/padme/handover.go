package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// A planned change of the root is the root's own write to the record: it stops
// granting (Yield), has the record name its successor, and once that is known to be
// written (Succeeded) it tells the successor which tokens rest, and who may have the
// others, and becomes a member. That message only saves time: without it the successor
// waits as after a death.

// considerHandover wishes for another root when a child has outranked this one for
// long enough.
func (m *Machine) considerHandover() {
	best := m.bestChild()
	if m.outrankedFor(best != nil && !m.isFixedRoot && comparePlace(best.priority, best.peer, m.priority, m.self) <= 0) {
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
		if l.leaving() || l.parting || l.received == 0 || l.mute != 0 && m.now-l.mute > m.heartbeat() || s == nil || s.goodbye || !s.candidate {
			continue
		}
		if best == nil || comparePlace(l.priority, l.peer, best.priority, best.peer) < 0 {
			best = l
		}
	}
	return best
}

// yield stops a root that is about to be succeeded. Its own holds go on under its lease.
func (m *Machine) yield(to protocol.Node) error {
	if !m.acting() || m.isFixedRoot || to.IsZero() || to == m.self {
		return m.badInput("not a root that can yield, or to nobody else")
	}
	m.authority.yieldsTo = to
	m.out.Changed = true
	return nil
}

// succeeded hands what we know to the next root, and makes us a member.
func (m *Machine) succeeded(term uint64, n protocol.Node) error {
	if m.role != protocol.Root || m.authority.yieldsTo.IsZero() || term <= m.epoch.Number || n.IsZero() || n == m.self {
		return m.badInput("not a root that has yielded to another")
	}
	msg := m.emit(protocol.KindHandover, n)
	msg.Epoch = protocol.Epoch{Number: term, Tie: n.Tie()}
	m.sayWhatIsKnown(msg)
	if m.inheriting() {
		msg.Within = m.authority.inherit - m.now
	}
	if m.departing {
		m.leaveTo(n)
		return nil
	}
	m.becomeMember()
	return nil
}

// sayWhatIsKnown names the tokens that rest, and who may have the others.
func (m *Machine) sayWhatIsKnown(msg *protocol.Message) {
	for _, r := range m.resources {
		if r.tok.phase == home {
			msg.Tokens = append(msg.Tokens, protocol.TokenState{Resource: r.q.resource})
		}
	}
	if !m.departing { // else it has nothing to show
		msg.Sessions = append(msg.Sessions, m.self)
	}
	for _, s := range m.members {
		if s.node != msg.To && !s.goodbye && !s.leaves {
			msg.Sessions = append(msg.Sessions, s.node)
		}
	}
}

// becomeMember makes a former root a member without a parent, that has not heard of
// another root yet. Its session ends as those do that it gave: TTL after the last renewal.
func (m *Machine) becomeMember() {
	for _, r := range m.resources {
		t := &r.tok
		switch {
		case t.phase == home:
			t.phase, t.entries = away, t.entries[:0] // its entries are home
		case t.phase == below && t.down == nil:
			t.phase, t.passed = away, nil // passed was whom to ask
		}
		t.unschedule()
		t.recovery = nil
		m.fences = max(m.fences, t.next)
	}
	m.session = session{number: m.lastSession + 1, until: m.heldUntil(), asked: m.session.asked}
	m.role, m.roster, m.authority = protocol.Joining, roster{}, authority{}
	m.outranks = 0
	m.root, m.reported, m.out.Changed = protocol.Node{}, false, true
	m.startJoin(0) // the successor will offer a place
}

// onHandover hears what the root before us knew. It may come before we are appointed,
// and then says that the record names us.
func (m *Machine) onHandover(msg *protocol.Message) error {
	switch {
	case msg.Epoch.Tie != m.self.Tie():
		return m.invalid(msg, "not a term of ours")
	case m.role != protocol.Root && msg.Epoch.Number > m.epoch.Number && msg.From == m.root:
		m.early = copied(msg) // its memory is the caller's
		m.early.Tokens, m.early.Sessions = slices.Clone(msg.Tokens), slices.Clone(msg.Sessions)
		m.out.Summoned = true
	case m.inheriting() && msg.Epoch == m.epoch && msg.From == m.authority.before:
		m.takeOver(msg)
	default:
		return m.stale(msg, "not from the root before us")
	}
	return nil
}

// takeOver takes the tokens that rested at the former root, which grants nothing since
// the record names us, and waits for those who may have the others.
func (m *Machine) takeOver(msg *protocol.Message) {
	for i := range msg.Tokens {
		if name := msg.Tokens[i].Resource; m.known(name) && m.resource(name).tok.unreported() {
			m.regenerate(m.resource(name))
		}
	}
	a := &m.authority
	a.before = protocol.Node{} // has told all that it knew
	if within := min(msg.Within, m.timing.WithTTL(protocol.MaxTTL).Grace()); within > 0 {
		a.unseen = after(m.now, within)
		// An earlier root may have had a longer TTL.
		a.inherit = max(a.inherit, a.unseen)
	}
	m.await(msg.Sessions)
}
