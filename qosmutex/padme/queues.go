package padme

import (
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
	arrivals   uint64        // numbers them
	nextMiss   protocol.Time // no deadline of an own request is before
	tried      bool          // a try may wait
}

// write appends all requests that live. Their queues follow from them.
func (q *queues) write(w *canonical.Writer, self protocol.Node) {
	all := q.requests
	w.Uint(uint64(len(all)))
	next := protocol.Never
	for _, e := range all {
		w.ID(e.id)
		w.Named(canonical.SortClock, e.turn)
		w.Int(e.priority)
		w.Text(e.q.resource)
		e.from.writeName(w)
		w.Uint(uint64(len(e.also)))
		for _, o := range e.also {
			o.link.writeName(w)
			w.Int(o.priority)
			w.Uint(uint64(o.hops))
		}
		w.Uint(uint64(e.hops), uint64(e.state), uint64(e.asked), e.ref)
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
		return &entry{came: q.arrivals + 1}
	}
	e := q.spare[last]
	q.spare = q.spare[:last]
	e.came = q.arrivals + 1 // until it arrives
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
	turn     uint64 // C by which it is ordered: that of its name, or less if it is for a client
	client   string // on whose behalf; empty: its participant's own
	priority int64
	q        *queue // in which it waits, or of what it is inside; its resource is an id, or protocol.Any
	from     *link  // the child that it came from; nil: our own
	also     []way  // other children that it came from, the best one last, and that have not taken it back
	hops     uint32 // links between the origin and here
	state    entryState
	sent     bool              // our parent knows it
	asked    uint8             // how many Requests for it may have been sent up from here, at most 2
	try      bool              // refused by the root if it cannot be granted at once
	named    bool              // named again since the child's last Attach
	fixed    bool              // own: the priority does not follow the participant's
	rank     uint8             // under Aging: the lowest that its priority had in its queue
	level    uint8             // under Aging: where it stands in its queue; 0 comes first
	patience uint32            // under Fair or Aging: how many that came later may still overtake it
	came     uint64            // number of its arrival here; those not yet numbered are the latest
	ref      uint64            // own
	deadline protocol.Time     // latest instant to enter; Never: none
	hold     protocol.Duration // how long it will be held; 0: unknown
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
