package sla

import "padme/qosmutex/protocol"

// admit is the admission control of §III-B1: whether r can be promised its deadline
// among the accepted requests known here. They are taken to start as late as their
// deadlines allow. r must not be in the queue.
func (c *deadlineCore) admit(r *deadlineEntry) bool {
	before, behind := c.neighbors(r)
	switch {
	case before != nil && !c.startsAfter(before, before.deadline, r):
		return false
	case behind != nil && !c.startsAfter(r, r.deadline, behind):
		return false
	case before == nil && c.holding() && !c.options.Literal:
		return deadlineSum(c.release(), c.way(c.Self, r.origin)) <= r.deadline
	}
	return true
}

// neighbors are the accepted requests just before and just behind the place of r.
func (c *deadlineCore) neighbors(r *deadlineEntry) (before, behind *deadlineEntry) {
	for i := range c.queue {
		q := &c.queue[i]
		switch {
		case q.tentative:
		case q.compare(r) > 0:
			return before, q
		default:
			before = q
		}
	}
	return before, nil
}

// startsAfter reports whether next starts in time if a starts at instant start and
// the token goes from one to the other.
func (c *deadlineCore) startsAfter(a *deadlineEntry, start protocol.Time, next *deadlineEntry) bool {
	return deadlineSum(deadlineSum(start, a.hold), c.way(a.origin, next.origin)) <= next.deadline
}

// release is when the token that is here can go: now, or at the end of the present
// critical section as it was declared.
func (c *deadlineCore) release() protocol.Time {
	if !c.inside {
		return c.Now()
	}
	return max(c.Now(), c.end)
}

// way is how long the token takes from one participant to another.
func (c *deadlineCore) way(from, to int) protocol.Duration {
	return c.hop * protocol.Duration(c.tree.Distance(from, to))
}

// answerable reports whether an answer to r is back by its deadline if the request
// goes on to the father. The way is one link longer from there; if the request
// crosses the token on that link, it is answered from here two links later, which is
// the same.
func (c *deadlineCore) answerable(r *deadlineEntry) bool {
	return deadlineSum(c.Now(), 2*c.hop+c.way(c.Self, r.origin)) <= r.deadline
}

// next chooses whom the token serves: the earliest deadline, or somebody at a
// distance of at most Preempt, the nearest first, after whom the earliest deadline
// is still met (§III-B2). The requests behind that one were admitted as if it
// started at its deadline, so it is enough to look at it. The queue is not empty.
func (c *deadlineCore) next() *deadlineEntry {
	head := &c.queue[0]
	for k := 0; k <= min(c.options.Preempt, c.N); k++ {
		for i := range c.queue {
			q := &c.queue[i]
			if c.tree.Distance(c.Self, q.origin) != k {
				continue
			}
			if q == head || c.startsAfter(q, deadlineSum(c.Now(), c.way(c.Self, q.origin)), head) {
				return q
			}
		}
	}
	return head
}
