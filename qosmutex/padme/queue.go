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
	unsent   int // of waiting, those that our parent does not know
	below    []belowCount
}

// belowCount is what waits in a child's subtree: known is how many of our
// waiting requests came from it, hidden how many more it keeps to itself (Replace
// passes on only the head). Without a known one there is no hidden one.
type belowCount struct {
	from          *link
	known, hidden int
}

// compare orders two requests of a queue (PADME §3.2): Level by priority, clock,
// identifier; Fair by clock, priority, identifier, but those of exhausted patience
// first; Aging by level and arrival; Deadline as Level, but by deadline.
func compare(model protocol.Priority, a, b *entry) int {
	p, c := cmp.Compare(a.priority, b.priority), cmp.Compare(a.id.Clock, b.id.Clock)
	switch model {
	case protocol.Fair:
		p, c = c, p
		if a.level == 0 || b.level == 0 {
			p = cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.came, b.came), p)
		}
	case protocol.Aging:
		p = cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.came, b.came))
	case protocol.Deadline:
		p = cmp.Compare(a.deadline, b.deadline)
	}
	if p != 0 {
		return p
	}
	if c != 0 {
		return c
	}
	return a.id.Node.Compare(b.id.Node)
}

func (q *queue) head() *entry {
	if len(q.waiting) == 0 {
		return nil
	}
	return q.waiting[0]
}

// ready is the first that may be served: not if its origin may have died, and behind a
// child that has attached again only what it has named again, for it may hear nothing of
// what we send.
func (m *Machine) ready(q *queue) *entry {
	for _, e := range q.waiting {
		if e.from == nil || e.named && !m.quiet(e) {
			return e
		}
	}
	return nil
}

func (q *queue) find(model protocol.Priority, e *entry) (int, bool) {
	return slices.BinarySearchFunc(q.waiting, e, func(a, b *entry) int { return compare(model, a, b) })
}

// insert puts e in its place, behind its equals (there are none: identifiers differ).
func (q *queue) insert(model protocol.Priority, e *entry) {
	if model == protocol.Aging { // its priority may change the levels of the others
		q.waiting = append(q.waiting, e)
		q.sort(model)
	} else {
		e.level = levelOf(e)
		i, _ := q.find(model, e)
		q.waiting = slices.Insert(q.waiting, i, e)
	}
	q.count(e, 1)
}

// remove takes e out. The order of the queue must still be that of model.
func (q *queue) remove(model protocol.Priority, e *entry) {
	if i, ok := q.find(model, e); ok {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.count(e, -1)
		if model == protocol.Aging {
			q.sort(model)
		}
	}
}

func (q *queue) count(e *entry, by int) {
	if !e.sent {
		q.unsent += by
	}
	if e.from == nil {
		return
	}
	b := q.child(e.from)
	if b.known += by; b.known == 0 {
		b.hidden = 0
	}
}

func (q *queue) child(l *link) *belowCount {
	for i := range q.below {
		if q.below[i].from == l {
			return &q.below[i]
		}
	}
	q.below = append(q.below, belowCount{from: l})
	return &q.below[len(q.below)-1]
}

// hidden is how many requests a child says that it keeps to itself.
func hidden(msg *protocol.Message) int { return int(min(msg.Hidden, math.MaxInt32)) }

// sort finds the levels and the order of model.
func (q *queue) sort(model protocol.Priority) {
	if model == protocol.Aging {
		var few [32]int64
		s := scale(few[:0]).with(q)
		for _, e := range q.waiting {
			e.rank, e.level = max(e.rank, s.rank(e)), s.level(e)
		}
	} else {
		for _, e := range q.waiting {
			e.level = levelOf(e)
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
	return len(q.waiting) + q.hiddenBelow()
}

// hidden is how many of them our parent does not know.
func (q *queue) hidden() int { return q.unsent + q.hiddenBelow() }

func (q *queue) hiddenBelow() int {
	n := 0
	for _, b := range q.below {
		n += b.hidden
	}
	return n
}
