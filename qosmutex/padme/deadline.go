package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// Deadline (the SLA paper, §III-B): the root serves the earliest deadline first
// and takes a request with a deadline only if it can promise it.
//
// A deadline is the latest instant at which its request may enter. It travels as
// the time that is left, and each participant on the way counts it from when the
// message comes, less [protocol.Timing].Hop: an estimate that is early, never late,
// while messages take at most Hop.
//
// The root plans: the token is home again 2·hops·Hop and the declared hold after
// each grant, and requests with a deadline are served in that order. A request
// that would enter too late in this plan, or make another one late, is refused. The
// plan can only be beaten, never broken, while messages take at most Hop, clocks
// run alike, applications hold as declared and the tree does not change: a request
// that is named to another root, or comes another way, is checked again. An undeclared
// hold has no end; nothing is promised behind it.
//
// Requests without a deadline are served when none with a deadline waits. All
// requests climb to the root, also under Replace, and no relay uses a token: its hold
// would not be in the plan.

// setDeadline sets the deadline of a request: within, less hop, from now. hop is the
// longest that its message can have taken. A within of 0 is no deadline.
func (m *Machine) setDeadline(e *entry, within, hop, hold protocol.Duration) {
	e.deadline, e.hold = protocol.Never, max(hold, 0)
	if within > 0 {
		e.deadline = after(m.now, within) - hop
	}
}

// within is the time left until e's deadline, for a message that is sent now; 0: it has
// none.
func (m *Machine) within(e *entry) protocol.Duration {
	if e.deadline == protocol.Never {
		return 0
	}
	return max(e.deadline-m.now, 1)
}

// transit is how long the token takes between the root and the origin of e.
func (m *Machine) transit(e *entry) protocol.Duration {
	return protocol.Duration(e.hops) * m.timing.Hop
}

// homeAfter is when the token is home again if it is given to e at instant t;
// Never if e did not say how long it holds.
func (m *Machine) homeAfter(t protocol.Time, e *entry) protocol.Time {
	if e.hold == 0 {
		return protocol.Never
	}
	return after(after(t, 2*m.transit(e)), e.hold)
}

// admission says why the new request e cannot be promised its deadline. Only the root
// knows all waiters; other participants check the time for the way there and back.
func (m *Machine) admission(e *entry) protocol.Reason {
	switch {
	case m.settings.Models.Priority != protocol.Deadline || e.deadline == protocol.Never || e.try:
		return protocol.ReasonNone
	case e.q == &m.any:
		return protocol.ReasonUnsupported // it would have to be in the plan of every resource
	case m.role == protocol.Root && m.attainable(m.find(e.q.resource), e):
		return protocol.ReasonNone
	case m.role != protocol.Root && m.now+2*protocol.Duration(m.depth)*m.timing.Hop <= e.deadline:
		return protocol.ReasonNone // as far as is known here
	}
	return protocol.ReasonUnattainable
}

// attainable plans the service of all that wait for r with a deadline, and of e in
// its place among them.
func (m *Machine) attainable(r *resource, e *entry) bool {
	at := m.homeBy(r)
	place, _ := r.q.find(m.ordering(), e)
	for i, w := range slices.Insert(slices.Clone(r.q.waiting), place, e) {
		if w.deadline == protocol.Never {
			break // the others come after all that have one
		}
		if i >= place && after(at, m.transit(w)) > w.deadline {
			return false
		}
		at = m.homeAfter(at, w)
	}
	return true
}

// homeBy is when the token of r is home at the latest; Never if that is not known.
func (m *Machine) homeBy(r *resource) protocol.Time {
	t := &r.tok
	switch {
	case t.phase == home:
		return m.now
	case t.recovery != nil || t.back < m.now: // lost, or somebody holds for longer than declared
		return protocol.Never
	}
	return t.back
}

// dropOverdue ends, at the root, what would be served next but can no longer
// enter in time.
func (m *Machine) dropOverdue(q *queue) {
	for e := q.head(); e != nil && e.deadline < m.now; e = q.head() {
		m.refuse(e, protocol.ReasonMissed)
	}
}

// missed ends our own requests whose deadline has passed while they waited.
func (m *Machine) missed() {
	if m.now <= m.nextMiss {
		return
	}
	m.nextMiss = protocol.Never
	for _, e := range slices.Clone(m.own) {
		switch {
		case e.state != waiting:
		case e.deadline < m.now:
			m.deny(e.ref, e.q.resource, protocol.ReasonMissed)
			m.drop(e, true)
		default:
			m.nextMiss = min(m.nextMiss, e.deadline)
		}
	}
}
