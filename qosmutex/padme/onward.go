package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// What the root does when a token has gone on without it.

// wentOn hears that the token was sent to the i-th of the schedule, so that all before it
// are over.
func (m *Machine) wentOn(r *resource, i int) {
	t := &r.tok
	late := i < t.follows.outdated // the sender had not heard of the newest schedule, and nor has the receiver
	session := t.follows.list[i].Session
	m.advance(r, i)
	if e := m.requests.get(t.target); e != nil && e.from != nil && e.state == waiting {
		m.servedClock = max(m.servedClock, m.near(e.turn))
		m.overtake(r, e)
		e.q.remove(m.ordering(), e)
		e.state = served
	}
	to := t.target.Node
	if s := m.sessionOf(to); s == nil || s.goodbye || s.number != session {
		m.recover(r) // it refuses the token
		return
	}
	if !m.reschedule(r) && late && m.mayNumber(t) {
		m.sendSchedule(r, to, t.inOrder())
	}
}

// advance makes the i-th of the schedule the present grant.
func (m *Machine) advance(r *resource, i int) {
	t := &r.tok
	if e := m.requests.get(t.target); e != nil && e.from != nil && e.state == served {
		m.remove(e) // its Release comes another way, and later
	}
	f := t.follows
	s := f.list[i]
	d := m.decisionOf(r, &s)
	if d != nil {
		d.Outdated = i < f.outdated
	}
	t.grant.Number, t.target, t.prio = s.Number, s.ID, s.Priority
	t.fences = protocol.Fences{Next: s.Fence, End: s.Fence + 1}
	if d != nil {
		d.Grant, d.Fences = t.grant, t.fences
	}
	f.list, f.outdated = slices.Delete(f.list, 0, i+1), max(0, f.outdated-i-1)
	t.until, t.back, t.holder, t.down, t.passed, t.entries = 0, protocol.Never, nil, nil, nil, t.entries[:0]
	f.forwarded, f.told = true, false
	m.touch(r.q.resource)
}

// replyAgain sends a grant that its target should have got by the direct way down the
// tree, at the root's next heartbeat: the message may be lost.
func (m *Machine) replyAgain() {
	if !m.acting() {
		return
	}
	m.askForTerm() // it is not to be had as often as one likes
	for _, r := range m.resources {
		t := &r.tok
		if t.phase == below && t.forwarded() && !t.follows.told && t.recovery == nil {
			if e := m.requests.get(t.target); e == nil || e.from == nil || e.state != served {
				m.recover(r) // we do not know the way
				continue
			}
			t.follows.told = true
			m.passDown(r, t.inOrder())
		}
		m.reschedule(r) // somebody may be quiet by now, or not any more
	}
}

// unconfirmedInTime ends a provisional grant, on which nothing is held any more. Its target may
// have sent the token on, and need not be asked.
func (m *Machine) unconfirmedInTime(r *resource) {
	t := &r.tok
	t.until = 0
	again := slices.ContainsFunc(t.list(), func(s protocol.Scheduled) bool { return s.ID.Node == t.target.Node })
	switch {
	case len(t.list()) == 0:
		m.regenerate(r)
	case again || t.recovery != nil && !t.recovery.all:
		m.recover(r)
	case t.recovery == nil:
		m.counters.Syncs++
		t.recovery = &recovery{answered: []protocol.Node{t.target.Node}}
		m.askAll(r)
	default:
		t.recovery.pending = without(t.recovery.pending, t.target.Node)
		t.recovery.answered = append(t.recovery.answered, t.target.Node)
		m.concludeIfDone(r)
	}
}
