package padme

import (
	"cmp"
	"math"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// queues are the requests that a participant knows, and in what order they wait.
type queues struct {
	maxWaiting int
	any        queue // of requests for any; those for one resource are with its token
	requests   requests
	own        []*entry      // waiting and inside, in order of arrival
	spare      []*entry      // a few, for reuse
	arrivals   uint64        // numbers them under Fair and Aging
	nextMiss   protocol.Time // no deadline of an own request is before
}

// requests writes all that live. Their queues follow from theq.
func (q *queues) write(w *canonical.Writer, self protocol.Node) {
	all := q.requests
	w.Uint(uint64(len(all)))
	next := protocol.Never
	for _, e := range all {
		w.ID(e.id)
		w.Int(e.priority)
		w.Text(e.q.resource)
		e.from.writeName(w)
		w.Uint(uint64(len(e.also)))
		for _, l := range e.also {
			l.writeName(w)
		}
		w.Uint(uint64(e.hops), uint64(e.state), e.ref)
		w.Flags(e.sent, e.try, e.named, e.fixed, e.deadline != protocol.Never)
		w.Names.NoteIn(canonical.SortArrival, self.Tie(), e.came)
		w.Uint(uint64(e.patience), uint64(e.rank))
		if e.deadline != protocol.Never {
			w.Int(int64(max(e.deadline-w.Now, -1))) // it has not passed at the instant itself
		}
		w.Int(int64(e.hold))
		if e.from == nil && e.state == waiting {
			next = min(next, e.deadline)
		}
	}
	w.Flags(q.nextMiss <= next) // that bound only saves work
}

func (q *queues) newEntry() *entry {
	last := len(q.spare) - 1
	if last < 0 {
		return &entry{}
	}
	e := q.spare[last]
	q.spare = q.spare[:last]
	return e
}

func (q *queues) ownByRef(ref uint64) *entry {
	for _, e := range q.own {
		if e.ref == ref {
			return e
		}
	}
	return nil
}

// recycle keeps the memory of an entry that nothing refers to any more.
func (q *queues) recycle(e *entry) {
	*e = entry{}
	if len(q.spare) < maxSpare {
		q.spare = append(q.spare, e)
	}
}

// entryState says how far a request has come at this participant.
type entryState uint8

const (
	waiting entryState = iota // in its queue
	served                    // a Reply for it has passed down here
	inside                    // own request: the application is in its critical section
)

// entry is one live request known at this participant.
type entry struct {
	id       protocol.RequestID
	priority int64
	q        *queue  // in which it waits, or of what it is inside; its resource is an id, or protocol.Any
	from     *link   // the child that it came from; nil: our own
	also     []*link // children that it came from before, the last one last, and that have not taken it back
	hops     uint32  // links between the origin and here
	state    entryState
	sent     bool              // our parent knows it
	try      bool              // never queued
	named    bool              // named again since the child's last Attach
	fixed    bool              // own: the priority does not follow the participant's
	rank     uint8             // under Aging: the lowest that its priority had in its queue
	level    uint8             // where it stands in its queue under Fair or Aging: 0 comes first
	patience uint32            // under Fair or Aging: how many that came later may still overtake it
	came     uint64            // number of its arrival here, since such a model is in force; 0: before
	ref      uint64            // own
	deadline protocol.Time     // latest instant to enter; Never: none
	hold     protocol.Duration // how long it will stay; 0: unknown
}

// alsoBut is also without l.
func (e *entry) alsoBut(l *link) []*link {
	return slices.DeleteFunc(e.also, func(o *link) bool { return o == l })
}

// requests are the live requests of a participant, in the order of their names.
type requests []*entry

func (l requests) search(id protocol.RequestID) (int, bool) {
	return slices.BinarySearchFunc(l, id, func(e *entry, id protocol.RequestID) int { return e.id.Compare(id) })
}

// get returns nil if there is no such request.
func (l requests) get(id protocol.RequestID) *entry {
	if i, ok := l.search(id); ok {
		return l[i]
	}
	return nil
}

// add files a request whose name is not there yet.
func (l *requests) add(e *entry) {
	i, _ := l.search(e.id)
	*l = slices.Insert(*l, i, e)
}

func (l *requests) remove(e *entry) {
	if i, ok := l.search(e.id); ok {
		*l = slices.Delete(*l, i, i+1)
	}
}

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
// child that has attached anew only what it has named again, for it may hear nothing of
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
