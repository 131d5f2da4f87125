package padme

import (
	"cmp"
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// queue holds the waiting requests for one resource id, or those for Any, in
// the order in which they are to be served.
type queue struct {
	resource string
	waiting  []*entry
	below    []belowCount
}

// belowCount is how many requests a child keeps to itself (Replace passes on only the
// head). None once no request that waits here came from it.
type belowCount struct {
	from   *link
	hidden int
}

// compare orders two requests of a queue (PADME §3.2): Level by priority, clock,
// identifier; Fair by clock, priority, identifier, but those of exhausted patience
// first; Aging by level and arrival; Deadline as Level, but by deadline.
func compare(model protocol.Priority, a, b *entry) int {
	n, _ := weigh(model, a, b)
	return n
}

// weigh is compare that says what decides.
func weigh(model protocol.Priority, a, b *entry) (int, protocol.Criterion) {
	p, c := cmp.Compare(a.priority, b.priority), cmp.Compare(a.id.Clock, b.id.Clock)
	byP, byC := protocol.ByPriority, protocol.ByClock
	switch model {
	case protocol.Fair:
		p, c, byP, byC = c, p, byC, byP
		if a.patience == 0 || b.patience == 0 {
			if n := cmp.Compare(min(a.patience, 1), min(b.patience, 1)); n != 0 {
				return n, protocol.ByPatience
			}
			if n := cmp.Compare(a.came, b.came); n != 0 {
				return n, protocol.ByArrival
			}
		}
	case protocol.Aging:
		if n := cmp.Compare(a.level, b.level); n != 0 {
			return n, protocol.ByLevel
		}
		p, byP = cmp.Compare(a.came, b.came), protocol.ByArrival
	case protocol.Deadline:
		p, byP = cmp.Compare(a.deadline, b.deadline), protocol.ByDeadline
	}
	switch {
	case p != 0:
		return p, byP
	case c != 0:
		return c, byC
	}
	return a.id.Node.Compare(b.id.Node), protocol.ByName
}

// head is the first that waits; a try keeps nobody back.
func (q *queue) head() *entry {
	for _, e := range q.waiting {
		if !e.try {
			return e
		}
	}
	return nil
}

// ready is the first that may be served: not if its origin may have died, and behind a
// child that has attached again only what it has named again, for it may hear nothing of
// what we send.
func (m *Machine) ready(q *queue) *entry {
	for _, e := range q.waiting {
		if m.servable(e) {
			return e
		}
	}
	return nil
}

func (m *Machine) servable(e *entry) bool { return e.from == nil || e.named && !m.quiet(e) }

func (q *queue) find(model protocol.Priority, e *entry) (int, bool) {
	return slices.BinarySearchFunc(q.waiting, e, func(a, b *entry) int { return compare(model, a, b) })
}

// insert puts e in its place, behind its equals (there are none: identifiers differ).
func (q *queue) insert(model protocol.Priority, e *entry) {
	if model == protocol.Aging { // its priority may change the levels of the others
		q.waiting = append(q.waiting, e)
		q.sort(model)
	} else {
		i, _ := q.find(model, e)
		q.waiting = slices.Insert(q.waiting, i, e)
	}
}

// remove takes e out. The order of the queue must still be that of model.
func (q *queue) remove(model protocol.Priority, e *entry) {
	if i, ok := q.find(model, e); ok {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.prune(e.from)
		if model == protocol.Aging {
			q.sort(model)
		}
	}
}

// hide notes how many requests child l says that it keeps to itself.
func (q *queue) hide(l *link, n uint32) {
	if q.forget(l); n > 0 {
		q.below = append(q.below, belowCount{l, int(min(n, math.MaxInt32))})
	}
}

// prune forgets that once no request of l waits here.
func (q *queue) prune(l *link) {
	if len(q.below) > 0 && !slices.ContainsFunc(q.waiting, func(e *entry) bool { return e.from == l }) {
		q.forget(l)
	}
}

// sort finds the levels, under Aging, and the order of model.
func (q *queue) sort(model protocol.Priority) {
	if model == protocol.Aging {
		var few [32]int64
		s := scale(few[:0]).with(q)
		for _, e := range q.waiting {
			e.rank, e.level = max(e.rank, s.rank(e)), s.level(e)
		}
	}
	slices.SortFunc(q.waiting, func(a, b *entry) int { return compare(model, a, b) })
}

// forget drops what child l reported.
func (q *queue) forget(l *link) {
	q.below = slices.DeleteFunc(q.below, func(b belowCount) bool { return b.from == l })
}

// total is how many requests are known to wait here and below.
func (q *queue) total() int {
	n := len(q.waiting)
	for _, b := range q.below {
		n += b.hidden
	}
	return n
}

// hidden is how many of them our parent is not told of.
func (m *Machine) hidden(q *queue) uint32 {
	n := q.total() - len(q.waiting)
	if !m.climbs() {
		for _, e := range q.waiting {
			if !e.sent {
				n++
			}
		}
	}
	return uint32(n)
}
