package padme

import (
	"cmp"
	"math/bits"
	"slices"

	"padme/qosmutex/protocol"
)

// Patience bounds how often a waiting request is overtaken under Fair and Aging. In
// each participant's queue a request has a patience: how many requests that came there
// later may still be served before it. At 0 it is exhausted; exhausted requests come
// first, in the order in which they came. So no request is overtaken more often than
// its patience says, whatever clocks and priorities the others have. At the root that
// bound is complete. Patience starts again at a new parent, and when a topic changes to
// such a model. Entries made while a token passes (Use) are additional.
//
// Fair starts with [protocol.FairBound] of those that wait at the time, which is more
// than a steady order by clocks ever takes, and orders by clock until it is used up. That
// happens where clocks have drifted apart: after a change of models, behind a participant
// that tries again and again, or among newcomers.
//
// Aging starts with [protocol.AgingBound] and orders by level, then by arrival. It is
// the Level heuristic of the SLA paper (§III-A2, c = 2), for any priorities: the rank of
// a priority among those that wait in the queue is the level that a request starts
// with, and it rises to level q once 2^(10−q) − 2^(10−rank) have overtaken it. While no
// more than r higher priorities wait, that makes at most 2^10 − 2^(10−r).

// arrive prepares e for waiting in its queue with others.
func (m *Machine) arrive(e *entry, others int) {
	m.arrivals++
	e.came = m.arrivals
	m.renew(e, others)
}

// renew gives e its patience, of which nothing is used up yet.
func (m *Machine) renew(e *entry, others int) {
	e.patience, e.rank = 0, 0
	switch m.settings.Models.Priority {
	case protocol.Fair:
		e.patience = uint32(protocol.FairBound(others))
	case protocol.Aging:
		e.patience = protocol.AgingBound
	}
}

// rivals is how many wait for what a request in q waits for.
func (m *Machine) rivals(q *queue) int {
	n := len(q.waiting)
	switch {
	case q == &m.any:
		for _, name := range m.settings.Resources {
			if r := m.find(name); r != nil {
				n += len(r.q.waiting)
			}
		}
	case m.declared(q.resource):
		n += len(m.any.waiting)
	}
	return n
}

// overtake lets those that wait for r count e, which is served now, in its turn.
func (m *Machine) overtake(r *resource, e *entry) {
	if !m.patient() {
		return
	}
	m.countIn(&r.q, e)
	if m.declared(r.q.resource) {
		m.countIn(&m.any, e)
	}
}

func (m *Machine) countIn(q *queue, by *entry) {
	model := m.settings.Models.Priority
	changed := false
	for _, e := range q.waiting {
		if e.came < by.came && e.patience > 0 {
			e.patience--
			changed = changed || e.patience == 0 || model == protocol.Aging
		}
	}
	if changed {
		q.sort(m.ordering())
		m.propagate(q, nil)
	}
}

// scale is the different priorities that wait, the most important first.
type scale []int64

// with adds what waits in q.
func (s scale) with(q *queue) scale {
	for _, e := range q.waiting {
		s = append(s, e.priority)
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// rank is how many of these priorities are higher than that of e, at most as many as
// there are levels but one.
func (s scale) rank(e *entry) uint8 {
	rank, _ := slices.BinarySearch(s, e.priority)
	if len(s) > protocol.AgingLevels {
		rank = rank * protocol.AgingLevels / len(s)
	}
	return uint8(rank)
}

// level is the level of e under Aging among requests of these priorities, from 1, or 0
// if its patience is exhausted. What it has gained while more of them waited it keeps.
func (s scale) level(e *entry) uint8 {
	if e.patience == 0 {
		return 0
	}
	const top = 10 // 2^top − 2^(top+1−AgingLevels) is AgingBound
	rank := s.rank(e)
	lowest := max(rank, e.rank)
	reached := top + 1 - uint8(bits.Len32(protocol.AgingBound-e.patience+1<<(top-lowest)))
	return 1 + rank - min(rank, lowest-reached)
}

// order is how requests for one resource and for any compete.
type order struct {
	ordering
	scale scale // of both, for levels are those of a queue
}

func (m *Machine) orderOf(r *resource) order {
	o := order{ordering: m.ordering()}
	if o.model == protocol.Aging && len(m.any.waiting) > 0 {
		o.scale = o.scale.with(&r.q).with(&m.any)
	}
	return o
}

// before reports whether a is to be served before b.
func (o order) before(a, b *entry) bool {
	n, _ := o.weigh(a, b)
	return n < 0
}

// weigh orders two requests, perhaps of two queues, and says what decides.
func (o order) weigh(a, b *entry) (int, protocol.Criterion) {
	if o.model == protocol.Aging && a.q != b.q {
		if n := cmp.Compare(o.scale.level(a), o.scale.level(b)); n != 0 {
			return n, protocol.ByLevel
		}
		return cmp.Compare(a.came, b.came), protocol.ByArrival
	}
	return weigh(o.ordering, a, b)
}
