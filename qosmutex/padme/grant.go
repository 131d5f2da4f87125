package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// serveQueue lets the root serve what waits in q.
func (m *Machine) serveQueue(q *queue) {
	if q != &m.any {
		m.serve(m.resource(q.resource))
		return
	}
	if len(q.waiting) == 0 { // the common case, and a topic may have thousands of resources
		return
	}
	for _, name := range m.settings.Resources {
		m.serveAtHome(m.resource(name))
	}
	for _, name := range m.settings.Resources { // only if no token at home would do
		m.recall(m.resource(name))
	}
}

// serve gives the token of r to whoever comes first, or recalls it.
func (m *Machine) serve(r *resource) {
	m.serveAtHome(r)
	m.recall(r)
}

// serveAtHome gives the token of r, if it is at home, to whoever comes first.
func (m *Machine) serveAtHome(r *resource) {
	for r.tok.phase == home && m.mayGive(r) {
		m.dropOverdue(&r.q)
		m.dropOverdue(&m.any)
		e := m.first(r)
		if e == nil {
			return
		}
		m.servedClock = max(m.servedClock, m.near(e.turn))
		if e.from != nil && !r.tok.used && m.uses(m.settings.Models.Reply) {
			if own := m.ownCandidate(r); own != nil { // the root Uses its own Reply, too
				m.give(r, own, protocol.HowPassing)
				continue
			}
		}
		m.give(r, e, inTurn(e))
	}
}

// first is the most important request that r would satisfy, of those that are ready.
func (m *Machine) first(r *resource) *entry {
	e := m.ready(&r.q)
	if a := m.ready(&m.any); a != nil && m.declared(r.q.resource) && (e == nil || m.orderOf(r).before(a, e)) {
		e = a
	}
	return e
}

// ownCandidate is the most important own request that the token of r satisfies.
func (m *Machine) ownCandidate(r *resource) *entry {
	var best *entry
	o := m.orderOf(r)
	for _, e := range m.own {
		fits := e.state == waiting && (e.q == &r.q || e.q == &m.any && m.declared(r.q.resource))
		if fits && (best == nil || o.before(e, best)) {
			best = e
		}
	}
	return best
}

// single reports whether resource names one lock. The topic need not declare it: what was
// granted before the settings changed goes its way to the end.
func single(resource string) bool { return resource != "" && resource != protocol.Any }

// known reports whether a message may name this resource: it is one lock, and the
// topic has it.
func (m *Machine) known(resource string) bool {
	return single(resource) && (m.settings.Open || m.find(resource) != nil || m.declared(resource))
}

// inTurn is how the token comes to e in its turn.
func inTurn(e *entry) protocol.How {
	if e.from == nil {
		return protocol.HowRoot
	}
	return protocol.HowTurn
}

// give starts a new grant of r for e. Only the root does this.
func (m *Machine) give(r *resource, e *entry, how protocol.How) {
	t := &r.tok
	d := m.decision(r, e, how)
	if how == inTurn(e) {
		m.overtake(r, e)
	}
	t.retain, t.idle, t.wanted = m.mayRetain(r, e), false, false
	t.unschedule()
	if m.directs() && e.from != nil {
		t.made().direct = true
	}
	m.grants++
	t.grant = m.newestGrant()
	t.target, t.prio, t.back = e.id, e.priority, m.homeAfter(m.now, e)
	t.entries, t.holder = t.entries[:0], nil
	t.fences = protocol.Fences{Next: t.next, End: t.next + m.fencesFor(e.hops)}
	if t.retain {
		t.fences.End, t.back = t.next+protocol.RetainedFences, protocol.Never
	}
	t.next = t.fences.End
	t.until = 0
	if d != nil {
		d.Grant, d.Fences, d.Retained = t.grant, t.fences, t.retain
	}
	if t.used = e.from == nil; t.used {
		m.enter(r, e, how)
		return
	}
	due := m.makeProvisional(r)
	if t.direct() { // its Reply says who comes next
		e.q.remove(m.ordering(), e)
		e.state = served
		if m.mayNumber(t) {
			var room [protocol.ScheduleLength]*entry
			m.number(r, m.following(r, room[:0]))
		}
	}
	m.passDown(r, t.list())
	t.until = due
}

// askForTerm wants another term if somebody has gone by a grant that we never gave, which a
// member has made under Direct: it takes all grants of ours below that for old ones.
func (m *Machine) askForTerm() {
	if m.authority.invented {
		m.out.Remembered = m.epoch.Number
	}
}

// takeHome ends a grant at the root, if the Release is that of the grant which is
// out.
func (m *Machine) takeHome(l *link, r *resource, msg *protocol.Message) error {
	t := &r.tok
	defer m.serveQueue(&m.any) // settle may have put a request back
	defer m.serve(r)
	at := t.scheduled(msg.Grant)
	if m.directs() && msg.Grant.Epoch == m.epoch && msg.Grant.Number > m.grants {
		m.authority.invented = true
		m.askForTerm()
		return m.invalid(msg, "a grant that we never gave")
	}
	if msg.Flags&protocol.FlagDirect != 0 {
		m.tellLeft(r, msg)
	}
	switch {
	case t.grant != msg.Grant && at < 0 || t.phase != below || t.recovery != nil && t.recovery.unreported:
		return m.stale(msg, "an old grant")
	case msg.Flags&protocol.FlagDirect != 0:
		if at >= 0 && t.recovery == nil { // else the answers of all who may have it say more
			m.wentOn(r, at)
		}
		return nil
	case msg.Flags&protocol.FlagRepeated != 0:
		m.doubt(r)
	case msg.Flags&protocol.FlagReturned != 0 && (t.forwarded() || at >= 0):
		m.recover(r) // a relay that returns our Reply does not know whether the target has the token already
	case !m.cameHomeBy(l, t, at):
		m.counters.OffPath++
		if msg.Flags&protocol.FlagRetain == 0 {
			m.doubt(r)
		}
	case msg.Flags&protocol.FlagRetain != 0:
		t.idle = true
		if h := t.holder; h != nil && slices.Contains(msg.Entries, h.entry) {
			t.holder = nil
		}
	default:
		mayUse := t.down == l && t.recovery == nil && msg.Flags&protocol.FlagReturned == 0 && m.uses(m.settings.Models.Release)
		if s := m.sessionOf(t.target.Node); s != nil && t.until != 0 && msg.Flags&protocol.FlagReturned != 0 {
			s.slow = true // it may have come too late, and so may the next, until a heartbeat comes in time
		}
		m.servedBy(t, m.turnOf(msg))
		if at >= 0 {
			m.advance(r, at)
		}
		if e := m.requests.get(t.target); msg.Flags&protocol.FlagReturned == 0 && e != nil && e.state == served {
			m.remove(e) // it names another way now, or the Release that told of its entry was lost on a way that broke
		}
		t.unschedule()
		t.recovery, t.phase, t.down = nil, home, nil
		m.cameHome(r)
		if own := m.ownCandidate(r); own != nil && mayUse && m.mayGive(r) {
			m.give(r, own, protocol.HowPassing)
		}
	}
	m.tellLeft(r, msg)
	return nil
}

// cameHomeBy reports whether a Release over l, of the present grant or of the one at the
// given place of its schedule, is to be believed: it comes the way that the grant went, or from
// the only one who can enter on it. Anybody may say that a grant of others is over, and
// who has moved meanwhile is asked.
func (m *Machine) cameHomeBy(l *link, t *token, at int) bool {
	switch {
	case at >= 0:
		return m.wayTo(t.list()[at].ID.Node) == l
	case t.forwarded() && t.down == nil: // it went past us
		return m.wayTo(t.target.Node) == l
	}
	return t.wayOf(l)
}

// wayOf reports whether what comes over l about the grant, which was passed down, comes the
// way that the grant went, or from its target, if nobody else enters on it.
func (t *token) wayOf(l *link) bool { return t.down == l || t.sole() && t.target.Node == l.peer }

// wayTo is the link to the child by which, as the heartbeats say, a member is reached;
// nil if that is not known.
func (m *Machine) wayTo(n protocol.Node) *link {
	for range maxDepth {
		s := m.sessionOf(n)
		switch {
		case s == nil || s.parent.IsZero():
			return nil
		case s.parent == m.self:
			return m.child(n)
		}
		n = s.parent
	}
	return nil
}

// tellLeft tells whose entries are over.
func (m *Machine) tellLeft(r *resource, msg *protocol.Message) {
	m.touch(r.q.resource)
	for _, e := range msg.Entries {
		m.out.Left = append(m.out.Left, protocol.Left{Entry: e, Resource: r.q.resource})
	}
}
