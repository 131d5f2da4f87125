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

// ordering is by what queues are ordered.
type ordering struct {
	model protocol.Priority
	turns bool // equals by turn before arrival: what keeps requests back (Replace) hides when they came
}

func (c *core) ordering() ordering { return ordering{c.settings.Models.Priority, !c.climbs()} }

// compare orders two requests of a queue: Level by priority, Fair by clock and priority, but
// those of exhausted patience first, Aging by level, Deadline by deadline, and all of them then
// by arrival. The papers end with clock and identifier (PADME §3.2): a clock counts turns, not
// time, and an identifier says nothing of who waited (docs/adr/0028-equals-by-arrival.md).
func compare(o ordering, a, b *entry) int {
	n, _ := weigh(o, a, b)
	return n
}

// weigh is compare that says what decides.
func weigh(o ordering, a, b *entry) (int, protocol.Criterion) {
	n, by := cmp.Compare(a.priority, b.priority), protocol.ByPriority
	c := cmp.Compare(a.turn, b.turn)
	switch o.model {
	case protocol.Fair:
		switch {
		case a.patience == 0 || b.patience == 0:
			n, by = cmp.Compare(min(a.patience, 1), min(b.patience, 1)), protocol.ByPatience
		case c != 0:
			n, by = c, protocol.ByClock
		}
	case protocol.Aging:
		n, by = cmp.Compare(a.level, b.level), protocol.ByLevel
	case protocol.Deadline:
		n, by = cmp.Compare(a.deadline, b.deadline), protocol.ByDeadline
	}
	switch {
	case n != 0:
		return n, by
	case c != 0 && o.turns && o.model == protocol.Level:
		return c, protocol.ByClock
	}
	return cmp.Compare(a.came, b.came), protocol.ByArrival
}

// head is the first that waits, apart from tries: they go up in any case.
func (q *queue) head() *entry {
	for _, e := range q.waiting {
		if !e.try {
			return e
		}
	}
	return nil
}

// ready is the first request that may be served. Passed over are those whose origin may
// have died, and those of a child that has attached again and not named them again, for
// it may hear nothing of what we send.
func (m *Machine) ready(q *queue) *entry {
	for _, e := range q.waiting {
		if m.servable(e) {
			return e
		}
	}
	return nil
}

func (m *Machine) servable(e *entry) bool { return e.from == nil || e.named && !m.quiet(e) }

func (q *queue) find(o ordering, e *entry) (int, bool) {
	return slices.BinarySearchFunc(q.waiting, e, func(a, b *entry) int { return compare(o, a, b) })
}

// insert puts e in its place. There are no equals: each has its number of arrival.
func (q *queue) insert(o ordering, e *entry) {
	if o.model == protocol.Aging { // its priority may change the levels of the others
		q.waiting = append(q.waiting, e)
		q.sort(o)
	} else {
		i, _ := q.find(o, e)
		q.waiting = slices.Insert(q.waiting, i, e)
	}
}

// remove takes e out. The queue must still be in the order o.
func (q *queue) remove(o ordering, e *entry) {
	if i, ok := q.find(o, e); ok {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.prune(e.from)
		if o.model == protocol.Aging {
			q.sort(o)
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

// sort finds the levels, under Aging, and the order o.
func (q *queue) sort(o ordering) {
	if o.model == protocol.Aging {
		var few [32]int64
		s := scale(few[:0]).with(q)
		for _, e := range q.waiting {
			e.rank, e.level = max(e.rank, s.rank(e)), s.level(e)
		}
	}
	slices.SortFunc(q.waiting, func(a, b *entry) int { return compare(o, a, b) })
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
