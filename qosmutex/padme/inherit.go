package padme

import "padme/qosmutex/protocol"

// awaitReport marks a token as one that anybody may have, and report.
func (m *Machine) awaitReport(r *resource) {
	t := r.tok
	r.tok = token{phase: below, grant: t.grant, bound: t.bound, next: t.next, back: protocol.Never, recovery: &recovery{unreported: true}}
}

// inheriting reports whether tokens may still be reported.
func (m *Machine) inheriting() bool { return m.role == protocol.Root && m.authority.inherit != 0 }

// inherited ends that time: the tokens that no member named are regenerated, and all who
// can have one that we look for are known. It goes on as long as nobody may have heard of us:
// somebody else may be about to become the root by another register.
func (m *Machine) inherited() {
	if m.authority.unheard != 0 {
		m.authority.inherit = m.now + m.timing.JoinWait
		return
	}
	m.authority.inherit = 0
	for _, r := range m.resources {
		switch rec := r.tok.recovery; {
		case rec == nil:
		case rec.unreported:
			m.regenerate(r)
		case rec.all && len(rec.pending) > 0 && r.tok.sole(): // its target, which is asked
		case rec.all || !m.mayAnswer(rec.pending[0]):
			m.askAll(r)
		}
	}
}

// heard notes that something that we sent has come back. If that took longer than others listen before
// they create the topic, one may have done so, and let somebody in, before it hears of us.
func (m *Machine) heard(sent protocol.Time) {
	a := &m.authority
	if a.unheard == 0 || sent < a.unheard {
		return
	}
	if m.now > a.unheard+m.timing.JoinWait {
		a.inherit = m.now + m.grace()
	}
	a.unheard = 0
}

// unreported reports whether anybody may have the token.
func (t *token) unreported() bool { return t.recovery != nil && t.recovery.unreported }

// adoptSession takes over a session that our predecessor gave, with its holds. The
// heartbeat names all of them, or none would be safe.
func (m *Machine) adoptSession(msg *protocol.Message) *memberSession {
	s := &memberSession{node: msg.From, number: msg.Session, heard: m.now - m.timing.TTL}
	m.addSession(s)
	for i := range msg.Tokens {
		m.adoptHold(msg.From, &msg.Tokens[i])
	}
	return s
}

func (m *Machine) adoptHold(holder protocol.Node, ts *protocol.TokenState) {
	if !single(ts.Resource) || !m.old(ts.Grant) {
		return
	}
	r := m.resource(ts.Resource)
	t := &r.tok
	if !t.unreported() {
		return
	}
	m.counters.Adopted++
	t.recovery = nil
	t.grant, t.target, t.passed = ts.Grant, ts.Target, &holder
	t.fences = protocol.Fences{Next: ts.Fence, End: ts.Fence + 1} // nobody Uses a token of an earlier term on its way
	m.markServed(ts.Target)
	m.recover(r) // its Release may have come before, and was not believed
}

// markServed takes a request out of its queue whose token turns out to be out.
func (m *Machine) markServed(id protocol.RequestID) {
	e := m.requests.get(id)
	if e == nil || e.state != waiting {
		return
	}
	e.q.remove(m.ordering(), e)
	e.state = served
}

// holds lists what we hold: all of it for a root that does not know of it, else what
// is to be confirmed.
func (m *Machine) holds(all bool) []protocol.TokenState {
	var list []protocol.TokenState
	for _, r := range m.resources {
		if t := &r.tok; t.unconfirmed() || all && t.phase == using {
			list = append(list, protocol.TokenState{
				Resource: r.q.resource, Grant: t.grant, Target: t.inside.id, Fence: t.fence, Client: t.inside.client,
			})
		}
	}
	return list
}
