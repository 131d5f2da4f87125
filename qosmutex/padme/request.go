package padme

import (
	"cmp"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// acquire takes a request of the application.
func (m *Machine) acquire(in *protocol.Input) error {
	if in.Ref == 0 || m.ownByRef(in.Ref) != nil {
		return fmt.Errorf("%w: %d", ErrRef, in.Ref)
	}
	reason := m.refusal(in.Resource)
	if m.departing {
		reason = protocol.ReasonClosed
	}
	if reason != protocol.ReasonNone {
		if reason == protocol.ReasonFull {
			m.exceeded(protocol.LimitWaiting, m.self.ID, m.maxWaiting)
		}
		m.deny(in.Ref, in.Resource, reason)
		return nil
	}
	m.idle = false
	e := m.newEntry()
	e.q, e.ref, e.try, e.fixed, e.client = m.queueOf(in.Resource), in.Ref, in.Try, in.Fixed, in.Client
	e.priority = m.priority
	if in.Fixed {
		e.priority = in.Priority
	}
	m.name(e)
	m.setDeadline(e, in.Within, 0, in.Hold)
	if reason := m.admission(e); reason != protocol.ReasonNone && (m.role == protocol.Root || m.role == protocol.Member) {
		m.recycle(e)
		m.deny(in.Ref, in.Resource, reason)
		return nil
	}
	m.nextMiss = min(m.nextMiss, e.deadline)
	m.own = append(m.own, e)
	m.requests.add(e)
	m.route(e)
	return nil
}

// name gives one of our own requests its turn and its name. Each takes a turn of the
// participant, but of those for clients each client has its own: what was served last says
// which one is next. So their names may run ahead of their turns.
func (m *Machine) name(e *entry) {
	if e.client == "" {
		m.clock++
		e.turn = m.clock
	} else {
		e.turn = max(m.servedClock+1, m.near(m.leastTurn(e.q)))
	}
	m.lastName = max(m.lastName+1, e.turn)
	e.id = protocol.RequestID{Node: m.self, Clock: m.lastName}
}

// leastTurn is the earliest turn of the participants' own requests in q, which a new root has not
// heard to be served yet, or whose participants have tried in vain for long; 0 if there are none.
func (m *Machine) leastTurn(q *queue) (least uint64) {
	if q == nil {
		return 0
	}
	for _, e := range q.waiting {
		if e.client == "" && (least == 0 || e.turn < least) {
			least = e.turn
		}
	}
	return least
}

// refusal says why a request for resource cannot be taken, as far as is known here. A root
// that departs takes those of others: they name them to the next one, too.
func (m *Machine) refusal(resource string) protocol.Reason {
	switch {
	case len(m.requests) >= m.maxWaiting:
		return protocol.ReasonFull
	case m.role != protocol.Root && m.role != protocol.Member:
		return protocol.ReasonNone // the settings in force are not known yet
	}
	return m.undeclared(resource)
}

// undeclared says why the settings in force allow no request for resource.
func (m *Machine) undeclared(resource string) protocol.Reason {
	switch {
	case resource == protocol.Any && len(m.settings.Resources) == 0:
		return protocol.ReasonNoResource
	case resource != protocol.Any && !m.declared(resource) && (!m.settings.Open || resource == ""):
		return protocol.ReasonUndeclared
	}
	return protocol.ReasonNone
}

// route queues a new request and lets it climb or be served.
func (m *Machine) route(e *entry) {
	q := e.q
	m.arrive(e, m.rivals(q))
	m.wait(e)
	if m.role == protocol.Root {
		m.serveQueue(q)
		return
	}
	if r := m.keptFor(q); r != nil {
		if e.from == nil {
			m.counters.Retained++
			r.tok.target = e.id // so that those above hear of its clock with the Release
			m.enter(r, e, protocol.HowRetained)
			return
		}
		m.passUp(r, false) // it overtakes the request on its way up
	}
	m.propagate(q, e)
}

// wait puts a request into its queue, also one that was served.
func (m *Machine) wait(e *entry) {
	m.touch(e.q.resource)
	e.state = waiting
	e.q.insert(m.ordering(), e)
	m.tried = m.tried || e.try
}

// refuseTries refuses, as the root, each try that could not be granted at once.
func (m *Machine) refuseTries() {
	if !m.tried || !m.acting() {
		return
	}
	m.tried = false
	for _, e := range slices.Clone(m.requests) {
		switch {
		case !e.try || e.state != waiting:
		case m.recalling(e.q):
			m.tried = true
		default:
			m.refuse(e, protocol.ReasonBusy)
		}
	}
}

// propagate sends a request up as the Request model says: Forward each, Replace
// only the head of each queue. A try always goes up. e is the request that is new or
// changed, nil if the queue's head may have changed.
func (m *Machine) propagate(q *queue, e *entry) {
	if !m.climbs() && (e == nil || !e.try) {
		e = q.head()
	}
	if e != nil && !e.sent {
		m.sendRequest(e)
	}
}

// sendRequest sends e up, for the first time or with another priority.
func (m *Machine) sendRequest(e *entry) {
	if m.parent == nil || e.hops >= maxDepth {
		return
	}
	e.sent, e.asked = true, min(e.asked+1, 2)
	msg := m.emitOn(m.parent, protocol.KindRequest)
	msg.Clock = e.turn
	msg.ID, msg.Priority, msg.Resource, msg.Hops = e.id, e.priority, e.q.resource, e.hops+1
	msg.Within, msg.Hold, msg.Hidden, msg.Client = m.within(e), e.hold, m.hidden(e.q), e.client
	if e.try {
		msg.Flags |= protocol.FlagTry
	}
	if e.asked > 1 {
		msg.Flags |= protocol.FlagRepeated
	}
	m.commit(m.parent, msg)
}

// nameAll sends every live request to a new parent: all of them under Forward,
// the heads under Replace (PADME §3.3), then Named, so that the parent can drop
// what was not named.
func (m *Machine) nameAll() {
	for _, e := range m.requests {
		e.sent = false
	}
	m.nameQueues()
	m.commit(m.parent, m.emitOn(m.parent, protocol.KindNamed))
}

// nameAgain sends every live request that our parent knows once more, for in the view
// that ended it may have been served there, and what it does not know as the model says.
// Nothing is forgotten on either side: what the parent knows it must be told when it ends.
func (m *Machine) nameAgain() {
	for _, e := range m.requests {
		if e.state == waiting && e.sent {
			m.sendRequest(e)
		}
	}
	m.nameQueues()
}

// nameQueues sends up what waits and our parent does not know, as the model says, in the order
// in which it came.
func (m *Machine) nameQueues() {
	var all []*entry
	for q := range m.eachQueue {
		all = append(all, q.waiting...)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.came, b.came) })
	for _, e := range all {
		m.propagate(e.q, e)
	}
}

func (m *Machine) onRequest(l *link, msg *protocol.Message) error {
	if msg.ID.IsZero() || msg.Resource == "" || msg.Hops == 0 || msg.Hops > maxDepth {
		return m.invalid(msg, "not a request that a child may send")
	}
	if msg.ID.Node == m.self { // its sender was above us and has not heard yet that we moved: a Withdraw follows
		return m.stale(msg, "our own request")
	}
	if e := m.requests.get(msg.ID); e != nil && e.from != nil {
		m.renamed(l, e, msg)
		return nil
	}
	if m.role == protocol.Root || len(m.requests) >= m.maxWaiting {
		if reason := m.refusal(msg.Resource); reason != protocol.ReasonNone {
			if reason == protocol.ReasonFull {
				m.exceeded(protocol.LimitWaiting, l.peer.ID, m.maxWaiting)
			}
			m.refuseBelow(l, msg.ID, msg.Resource, reason)
			return nil
		}
	}
	e := m.newEntry()
	e.turn = m.turnOf(msg)
	e.id, e.priority, e.hops, e.from, e.named = msg.ID, msg.Priority, msg.Hops, l, true
	e.q, e.try, e.client = m.queueOf(msg.Resource), msg.Flags&protocol.FlagTry != 0, msg.Client
	if msg.Flags&protocol.FlagRepeated != 0 {
		e.asked = 1 // we may have sent one up, too, and forgotten that
	}
	m.setDeadline(e, msg.Within, m.timing.Hop, msg.Hold)
	if m.role == protocol.Root {
		if reason := m.admission(e); reason != protocol.ReasonNone {
			m.recycle(e)
			m.refuseBelow(l, msg.ID, msg.Resource, reason)
			return nil
		}
	}
	m.requests.add(e)
	e.q.hide(l, msg.Hidden)
	m.route(e)
	return nil
}

// reprioritize gives a waiting request another priority, here and above. The
// same (I,C) with a new P replaces the old one at every hop.
func (m *Machine) reprioritize(e *entry, priority int64) {
	if e.priority == priority {
		return
	}
	q := e.q
	q.remove(m.ordering(), e)
	e.priority = priority
	q.insert(m.ordering(), e)
	if m.role == protocol.Root {
		return // tokens at home have no waiting requests: the order alone changes nothing
	}
	if e.sent {
		m.sendRequest(e)
	}
	m.propagate(q, e)
}

// prioritize changes the participant's own priority and that of the waiting
// requests which follow it.
func (m *Machine) prioritize(priority int64) {
	if m.priority == priority {
		return
	}
	m.priority = priority
	for _, e := range m.own {
		if e.state == waiting && !e.fixed {
			m.reprioritize(e, priority)
		}
	}
}

// raise gives one waiting request of the application another priority, for good.
func (m *Machine) raise(ref uint64, priority int64) error {
	e := m.ownByRef(ref)
	if e == nil || e.state != waiting {
		return fmt.Errorf("%w: no request %d waits", ErrRef, ref)
	}
	e.fixed = true
	m.reprioritize(e, priority)
	return nil
}

// withdraw ends a request that the application no longer waits for.
func (m *Machine) withdraw(ref uint64) error {
	e := m.ownByRef(ref)
	if e == nil || e.state == inside {
		return fmt.Errorf("%w: no request %d waits", ErrRef, ref)
	}
	m.drop(e, true)
	return nil
}

func (m *Machine) onWithdraw(l *link, msg *protocol.Message) error {
	e := m.requests.get(msg.ID)
	if e == nil || e.from != l && !e.viaToo(l) {
		return m.stale(msg, "no such request of this child") // it has moved, or was served
	}
	if m.takeBack(e, l) {
		m.drop(e, true)
	}
	return nil
}

// drop removes a request. If tell is set and the parent knows it, the parent
// drops it too; a new head goes up in its place.
func (m *Machine) drop(e *entry, tell bool) {
	wasSent, id, resource := e.sent, e.id, e.q.resource
	m.remove(e)
	if m.parent == nil {
		return
	}
	if tell && wasSent {
		msg := m.emitOn(m.parent, protocol.KindWithdraw)
		msg.ID, msg.Resource = id, resource
		m.commit(m.parent, msg)
	}
	m.propagate(m.queueOf(resource), nil)
}

// remove forgets a request without telling anybody.
func (m *Machine) remove(e *entry) {
	m.touch(e.q.resource)
	if e.state == waiting {
		e.q.remove(m.ordering(), e)
	}
	m.requests.remove(e)
	if e.from == nil {
		m.idle = false
		m.own = slices.DeleteFunc(m.own, func(o *entry) bool { return o == e })
	}
	m.recycle(e)
}

// refuseBelow refuses a request on its way up; the refusal follows its path down.
func (m *Machine) refuseBelow(l *link, id protocol.RequestID, resource string, reason protocol.Reason) {
	msg := m.emitOn(l, protocol.KindDeny)
	msg.ID, msg.Resource, msg.Reason = id, resource, reason
	m.commit(l, msg)
}

func (m *Machine) onDeny(msg *protocol.Message) error {
	e := m.requests.get(msg.ID)
	if e == nil || e.state != waiting {
		return m.stale(msg, "no such request")
	}
	m.refuse(e, msg.Reason)
	return nil
}

// refuse ends a request with a reason: toward the application or down its path.
func (m *Machine) refuse(e *entry, reason protocol.Reason) {
	if e.from == nil {
		m.deny(e.ref, e.q.resource, reason)
	} else {
		for _, o := range append(e.also, e.present()) {
			m.refuseBelow(o.link, e.id, e.q.resource, reason)
		}
	}
	// A Request that crosses the refusal is a new one to our parent.
	m.drop(e, e.asked > 1)
}

// sweep drops the requests of a child that it did not name after its Attach.
func (m *Machine) sweep(l *link) {
	for _, e := range slices.Clone(m.requests) {
		if e.from == l && !e.named && m.takeBack(e, l) {
			m.drop(e, true)
		}
	}
}
