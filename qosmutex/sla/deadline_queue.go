package sla

import (
	"cmp"
	"slices"

	"padme/qosmutex/protocol"
)

// deadlineEntry is a request as one participant knows it.
type deadlineEntry struct {
	id        protocol.RequestID
	origin    int // index of id.Node
	priority  int64
	deadline  protocol.Time     // latest start, on the own clock; Never: none
	hold      protocol.Duration // Never: unknown
	tentative bool              // not acknowledged yet; admission does not count it
}

func (a *deadlineEntry) compare(b *deadlineEntry) int {
	return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.id.Clock, b.id.Clock), cmp.Compare(a.origin, b.origin))
}

// overdue reports whether it is too late to start.
func (a *deadlineEntry) overdue(now protocol.Time) bool { return a.deadline < now }

// wireHold is the hold as messages carry it.
func (a *deadlineEntry) wireHold() protocol.Duration {
	if a.hold == protocol.Never {
		return 0
	}
	return a.hold
}

// deadlineQueue holds requests, the earliest deadline first, and at most one of
// each participant: nobody makes another before the last one is over.
type deadlineQueue []deadlineEntry

// of returns the request of a participant, or nil.
func (q deadlineQueue) of(origin int) *deadlineEntry {
	if i := q.index(origin); i >= 0 {
		return &q[i]
	}
	return nil
}

func (q deadlineQueue) index(origin int) int {
	return slices.IndexFunc(q, func(e deadlineEntry) bool { return e.origin == origin })
}

// put inserts e; an older request of the same participant goes.
func (q *deadlineQueue) put(e deadlineEntry) {
	q.remove(e.origin)
	i, _ := slices.BinarySearchFunc(*q, e, func(a, b deadlineEntry) int { return a.compare(&b) })
	*q = slices.Insert(*q, i, e)
}

func (q *deadlineQueue) remove(origin int) {
	if i := q.index(origin); i >= 0 {
		*q = slices.Delete(*q, i, i+1)
	}
}

// deadlineSum is t + d, where Never plus anything, and what exceeds it, is Never. d
// is not negative.
func deadlineSum(t protocol.Time, d protocol.Duration) protocol.Time {
	if t > protocol.Never-d {
		return protocol.Never
	}
	return t + d
}
