package padme

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// passDown sends the token on toward its target, with what comes after it, or home if the
// target's request is no longer there.
func (m *Machine) passDown(r *resource, schedule []protocol.Scheduled) {
	t := &r.tok
	e := m.requests.get(t.target)
	if e == nil || e.from == nil {
		m.counters.Returned++
		m.passUp(r, true)
		return
	}
	q := e.q
	if e.state == waiting { // else an earlier grant for it was lost
		q.remove(m.ordering(), e)
	}
	e.state = served
	l := e.from
	msg := m.emitOn(l, protocol.KindReply)
	msg.ID, msg.Priority, msg.Resource, msg.Grant = t.target, t.prio, r.q.resource, t.grant
	msg.Fences, msg.Session, msg.Until, msg.Schedule = t.fences, l.session, t.until, m.out.Lend(schedule)
	if t.retain {
		msg.Flags = protocol.FlagRetain
	}
	m.commit(l, msg)
	m.touch(r.q.resource)
	t.phase, t.down, t.passed = below, l, &l.peer
	m.propagate(q, nil) // Replace: the next head can be served by another token
}

// passUp sends the token home, with every entry made on it.
func (m *Machine) passUp(r *resource, returned bool) {
	t := &r.tok
	if m.role == protocol.Root {
		t.phase, t.down = home, nil
		m.serve(r)
		return
	}
	if t.retain {
		t.fences.Next = t.fences.End // the root relies on it that only we enter
	}
	t.returned = returned
	if m.parent == nil {
		t.phase, t.down = kept, nil
		return
	}
	rel := protocol.Message{ID: t.target, Resource: r.q.resource, Grant: t.grant, Fences: t.fences, Entries: t.entries}
	if returned {
		rel.Flags = protocol.FlagReturned
	}
	m.sendRelease(&rel)
	t.phase, t.down, t.passed, t.entries = away, nil, &m.parent.peer, t.entries[:0]
}

// sendRelease sends what a Release says to our parent.
func (m *Machine) sendRelease(rel *protocol.Message) {
	msg := m.emitOn(m.parent, protocol.KindRelease)
	msg.Flags, msg.ID, msg.Resource, msg.Grant, msg.Fences, msg.Entries = rel.Flags, rel.ID, rel.Resource, rel.Grant, rel.Fences, rel.Entries
	m.commit(m.parent, msg)
	if rel.Flags&protocol.FlagReturned != 0 {
		m.sendAgain(rel.ID)
	}
}

// onReply takes the token from the parent.
func (m *Machine) onReply(msg *protocol.Message) error {
	if msg.ID.IsZero() || !single(msg.Resource) ||
		msg.Fences.Next == 0 || msg.Fences.Next >= msg.Fences.End || len(msg.Path) > maxDepth ||
		!isSchedule(msg.Schedule, msg.Grant.Number, msg.Fences.End) {
		return m.invalid(msg, "not a grant")
	}
	r := m.resource(msg.Resource)
	t := &r.tok
	// It has been here, when its target had another way, or is answered for.
	if msg.Grant == t.grant && msg.ID.Node == m.self {
		t.followReply(msg) // we had the token from another participant
	}
	if been := msg.Grant.Compare(t.grant) <= 0; been || msg.Grant.Compare(t.bound) <= 0 || m.old(msg.Grant) {
		again := m.sendAgain(msg.ID)    // those above may think it served
		if !been && !m.old(msg.Grant) { // the root that we answered may be none any more: let the present one look
			m.passStale(&protocol.Message{
				Flags: protocol.FlagRepeated, ID: msg.ID, Resource: msg.Resource, Grant: msg.Grant, Fences: msg.Fences,
			})
		} else if !again {
			return m.stale(msg, "an old grant")
		}
		m.counters.Stale++
		return nil
	}
	if t.phase == using {
		return m.invalid(msg, fmt.Sprintf("grant %v of what we are inside of on grant %v", msg.Grant, t.grant))
	}
	t.grant, t.target, t.prio, t.fences, t.until = msg.Grant, msg.ID, msg.Priority, msg.Fences, msg.Until
	t.entries, t.returned, t.retain = t.entries[:0], false, msg.Flags&protocol.FlagRetain != 0
	if msg.ID.Node == m.self {
		t.followReply(msg)
	}
	e := m.requests.get(msg.ID)
	switch {
	case msg.Session != m.session.number || e == nil || e.state != waiting || e.from == nil && m.tooLate(t):
		m.counters.Returned++
		m.passUp(r, true)
	case e.from == nil:
		m.overtake(r, e)
		m.enter(r, e, protocol.HowTurn)
	default:
		m.overtake(r, e)
		own := m.ownCandidate(r)
		if m.uses(m.settings.Models.Reply) && own != nil && !t.retain && t.fences.End-t.fences.Next >= 2 {
			m.enter(r, own, protocol.HowPassing)
			t.toTarget = true
		} else {
			m.passDown(r, msg.Schedule)
		}
	}
	return nil
}

// enter lets the application in, with the next fence of the grant.
func (m *Machine) enter(r *resource, e *entry, how protocol.How) {
	t := &r.tok
	fence := t.fences.Next
	t.fences.Next++
	q := e.q
	q.remove(m.ordering(), e)
	e.state, e.q = inside, &r.q
	t.phase, t.down, t.inside, t.fence, t.entered = using, nil, e, fence, m.now
	if t.until != 0 {
		m.nextDue = min(m.nextDue, t.until)
		m.askSoon(t)
	}
	m.counters.Entries++
	m.out.Grants = append(m.out.Grants, protocol.Granted{
		Ref: e.ref, ID: e.id, Turn: e.turn, Resource: r.q.resource, Fence: fence, Priority: e.priority, Grant: t.grant, Until: t.until, How: how,
	})
	m.propagate(q, nil)
}

// leave ends the hold of ref: the token goes on.
func (m *Machine) leave(ref uint64) error {
	e := m.ownByRef(ref)
	if e == nil || e.state != inside {
		return fmt.Errorf("%w: request %d is not inside", ErrRef, ref)
	}
	r := m.find(e.q.resource)
	t := &r.tok
	entry, known := protocol.Entry{ID: e.id, Fence: t.fence}, e.asked > 0
	m.remove(e)
	onTheWay := t.toTarget
	t.inside, t.toTarget = nil, false
	if known || !t.retain { // a request that a retained token served never went up
		t.entries = append(t.entries, entry)
	}
	if onTheWay && !m.old(t.grant) {
		m.passDown(r, nil)
		return nil
	}
	if m.old(t.grant) {
		t.fences.Next = t.fences.End // its root knows that we had it: nobody may Use it on the way
	}
	if !m.passOn(r) && !m.keep(r) {
		m.passUp(r, onTheWay) // the way is of an earlier view
	}
	return nil
}

// onRelease takes the token back from a child.
func (m *Machine) onRelease(l *link, msg *protocol.Message) error {
	if !single(msg.Resource) || msg.Fences.Next > msg.Fences.End {
		return m.invalid(msg, "not a release")
	}
	if done := m.settle(l, msg); len(done) < len(msg.Entries) {
		rest := *msg // it is the caller's
		rest.Entries, msg = done, &rest
	}
	r := m.resource(msg.Resource)
	t := &r.tok
	returned := msg.Flags&protocol.FlagReturned != 0
	if m.role == protocol.Root {
		return m.takeHome(l, r, msg)
	}
	m.propagate(&r.q, nil) // Replace: new heads go first, on the same channel
	m.propagate(&m.any, nil)
	if msg.Flags&(protocol.FlagRetain|protocol.FlagDirect) != 0 { // no token
		if msg.Flags&protocol.FlagDirect != 0 && t.grant.Compare(msg.Grant) < 0 && t.phase == below && t.down == l {
			t.phase, t.down = away, nil
		}
		m.passStale(msg)
		return nil
	}
	if t.grant.Compare(msg.Grant) > 0 || t.phase == using || msg.Flags&protocol.FlagRepeated != 0 {
		m.passStale(msg)
		if t.grant == msg.Grant && t.phase == below && t.down == l && m.parent != nil {
			t.phase, t.down = away, nil // who lost it below has told the root: nothing is left for us to tell
		}
		return nil
	}
	if t.grant == msg.Grant && m.wentUp(t) && t.returned == returned && !m.departing {
		m.orphan() // a cycle of parents; under Direct a grant may come once unused, and once used
	}
	forgotten := t.grant.Compare(msg.Grant) < 0 && t.bound.Compare(msg.Grant) >= 0 // perhaps
	if forgotten || t.grant == msg.Grant && !(t.phase == below && t.wayOf(l)) {
		m.passStale(msg) // we may know another way of this grant: the root is to ask
		return nil
	}
	onPath := t.grant == msg.Grant && t.down == l && t.bound.Compare(t.grant) < 0
	fences := msg.Fences
	if t.grant != msg.Grant {
		t.entries, t.until, t.retain = t.entries[:0], 0, false
	} else if !leaves(fences, t.fences, msg, returned) {
		m.counters.Invalid++
		fences = protocol.Fences{Next: t.fences.End, End: t.fences.End} // nobody enters on it any more
	}
	t.grant, t.target, t.fences = msg.Grant, msg.ID, fences
	t.entries = slices.Insert(t.entries, 0, msg.Entries...)
	own := m.ownCandidate(r)
	switch {
	case !onPath:
		m.counters.OffPath++
		t.bind(t.grant)
		m.passUp(r, returned)
	case m.uses(m.settings.Models.Release) && own != nil && !returned && t.fences.Next < t.fences.End:
		m.enter(r, own, protocol.HowPassing)
	default:
		m.passUp(r, returned)
	}
	return nil
}

// leaves reports whether fences can be what a child has left of those that it was given: no
// other ones, and none that an entry of its Release has used.
func leaves(left, given protocol.Fences, msg *protocol.Message, returned bool) bool {
	used := func(e protocol.Entry) bool { return e.Fence >= left.Next }
	return left.End == given.End && left.Next >= given.Next && (returned || left.Next > given.Next) && !slices.ContainsFunc(msg.Entries, used)
}

// wentUp reports whether we passed a token to our parent last.
func (m *Machine) wentUp(t *token) bool {
	return t.phase == away && t.passed != nil && m.parent != nil && *t.passed == m.parent.peer
}

// settle removes from the queues what a Release says is done: each entry made,
// and, if the grant came back unused, its target. It returns the entries that are
// believed: not those of requests that another child, or our own application, has made.
func (m *Machine) settle(l *link, msg *protocol.Message) []protocol.Entry {
	believed := msg.Entries
	for i, done := range msg.Entries {
		ok := m.isDone(l, msg, done.ID)
		switch {
		case !ok && len(believed) == len(msg.Entries):
			believed = slices.Clone(msg.Entries[:i])
		case ok && len(believed) < i:
			believed = append(believed, done)
		}
	}
	if msg.Flags&protocol.FlagReturned == 0 {
		return believed
	}
	t := &m.resource(msg.Resource).tok
	switch e := m.requests.get(msg.ID); {
	case e == nil || e.from == nil || e.from != l && !e.viaToo(l) && !(t.grant == msg.Grant && t.down == l):
	case m.takeBack(e, l): // the way that the grant took no longer leads to this request
		m.remove(e)
	case e.state == served: // it has another way now
		m.wait(e)
	}
	return believed
}

// isDone removes a request that child l says is served, if it came from there. Of one that came
// from elsewhere by now, that way is over.
func (m *Machine) isDone(l *link, msg *protocol.Message, id protocol.RequestID) bool {
	e := m.requests.get(id)
	switch {
	case e == nil:
		return true
	case e.from == nil:
		return false
	case e.from != l && id.Node != l.peer && m.wayTo(id.Node) != l:
		e.also = e.alsoBut(l)
		return false
	}
	if e.state == waiting && m.directs() { // it got the token past us
		m.overtake(m.resource(msg.Resource), e)
	}
	m.remove(e)
	return true
}

// passStale hands an outdated or repeated Release on toward the root, which
// alone knows what it is worth, as one that is not the token. Our own record of the token
// stays as it is. One that our parent has not acknowledged yet does not go again: it would go
// round in a cycle of parents.
func (m *Machine) passStale(msg *protocol.Message) {
	m.counters.OffPath++
	rel := *msg
	if rel.Flags&(protocol.FlagRetain|protocol.FlagDirect) == 0 {
		rel.Flags |= protocol.FlagRepeated
	}
	if m.parent == nil || m.parent.keeps(&rel) {
		return
	}
	rel.Entries = slices.Clone(msg.Entries) // their memory is the caller's
	m.sendRelease(&rel)
}

// sendAgain sends up a request that those above have dropped, or think served,
// because of a grant for it that was of no use, but which waits here. It reports
// whether there is such a request.
func (m *Machine) sendAgain(id protocol.RequestID) bool {
	e := m.requests.get(id)
	if e == nil || e.state != waiting {
		return false
	}
	e.sent = false
	m.propagate(e.q, e)
	return true
}
