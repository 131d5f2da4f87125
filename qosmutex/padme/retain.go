package padme

import "padme/qosmutex/protocol"

// Retain: a participant that gets the token twice in a row, and leaves while no other
// request waits, keeps it, with fences for many entries, and enters again without a
// message. When another participant asks, the root recalls the token by a Sync: a target
// that is not inside gives it up with its answer, one that is inside sends it home when it
// leaves. So a lost message, a dead member and a change of the root are as with a hold.
//
// The root grants a recalled token in the order of its queue. Only entries that the
// target makes before the recall reaches it are out of order.

// mayRetain reports, at the root, whether the grant of r that e is about to get is to be
// one that its target keeps.
func (m *Machine) mayRetain(r *resource, e *entry) bool {
	if !m.retains() || r.tok.wanted || e.from == nil || e.id.Node != r.tok.target.Node || m.waitFor(r) != 1 {
		return false
	}
	m.needFences(r.tok.next) // sooner than with the next heartbeat: one grant takes many
	return r.tok.next+protocol.RetainedFences+2*maxDepth <= m.authority.ceiling
}

// waitFor is how many requests are known that r would satisfy.
func (m *Machine) waitFor(r *resource) int {
	n := r.q.total()
	if m.declared(r.q.resource) {
		n += m.any.total()
	}
	return n
}

// keep retains the token that we leave, if we may.
func (m *Machine) keep(r *resource) bool {
	t := &r.tok
	if !t.retain || !m.retains() || m.parent == nil || m.departing || m.waitFor(r) > 0 ||
		t.fences.Next >= t.fences.End || t.bound.Compare(t.grant) >= 0 {
		return false
	}
	if len(t.entries) > 0 { // those above believe that it waits or holds
		m.sendRelease(&protocol.Message{
			Flags: protocol.FlagRetain, ID: t.target, Resource: r.q.resource, Grant: t.grant, Fences: t.fences, Entries: t.entries,
		})
		t.entries = t.entries[:0]
	}
	t.phase, t.returned, t.down, t.entered = kept, false, nil, m.now
	return true
}

// keptFor is a lock whose token we retain and may use for a request that waits in q, or nil.
func (m *Machine) keptFor(q *queue) *resource {
	retained := func(r *resource) bool {
		return r != nil && r.tok.retain && r.tok.phase == kept && r.tok.usable() && m.session.number != 0
	}
	if q != &m.any {
		if r := m.find(q.resource); retained(r) {
			return r
		}
		return nil
	}
	for _, name := range m.settings.Resources {
		if r := m.find(name); retained(r) {
			return r
		}
	}
	return nil
}

// giveBack sends home the tokens that we retain and have not used for this long.
func (m *Machine) giveBack(unused protocol.Duration) {
	for _, r := range m.resources {
		if t := &r.tok; t.phase == kept && t.retain && m.parent != nil && m.now-t.entered >= unused {
			m.passUp(r, false)
		}
	}
}

// recall has, as the root, the token of r given back if it is retained and somebody waits.
func (m *Machine) recall(r *resource) {
	t := &r.tok
	if t.phase != below || !t.retain || t.recovery != nil || !m.acting() || m.first(r) == nil {
		return
	}
	m.counters.Recalls++
	t.recovery = &recovery{recall: true, until: m.now + 2*m.timing.Hop}
	m.askAll(r)
}

// recalled has the token that we hold go home when we leave. No relay may Use it on its
// way, for the root asks only us. The root has heard of our entry, and hears of its end.
func (m *Machine) recalled(t *token) {
	t.fences.Next = t.fences.End
	t.inside.asked = max(t.inside.asked, 1)
}

// recalling reports whether a try that waits in q may be granted yet.
func (m *Machine) recalling(q *queue) bool {
	back := func(r *resource) bool {
		if r == nil || r.tok.phase != below || r.tok.holder != nil {
			return false
		}
		rec := r.tok.recovery
		return rec != nil && rec.recall && m.now < rec.until
	}
	if q != &m.any {
		return back(m.find(q.resource))
	}
	for _, name := range m.settings.Resources {
		if back(m.find(name)) {
			return true
		}
	}
	return false
}

// servedBy takes for served in their turn, at the root, the requests that the target of a
// retained token has served itself, up to this clock: those that it makes from now on would
// come after everybody else's for as many rounds.
func (m *Machine) servedBy(t *token, clock uint64) {
	if t.retain {
		m.servedClock = max(m.servedClock, m.near(clock))
	}
}

// cameHome notes, at the root, whether somebody waits when a token comes home: who gets it
// next is not alone then, even if it is who had it before.
func (m *Machine) cameHome(r *resource) {
	r.tok.wanted = m.retains() && m.waitFor(r) > 0
}
