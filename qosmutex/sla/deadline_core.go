package sla

import (
	"errors"
	"fmt"
	"math"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// deadlineCore is one participant of the response-time algorithm. The queue of the
// one that has the token holds every request that has reached it; the queue of
// another one those of the participants from which the token is reached through it.
type deadlineCore struct {
	*static.Env
	tree    *static.Tree
	options DeadlineOptions
	hop     protocol.Duration

	father int // the neighbor toward the token; Self: it is here
	queue  deadlineQueue
	// over holds, for each other participant, the clock of its last request that is
	// known to be withdrawn: a token that crossed the withdrawal may still list it.
	over   []uint64
	fence  uint64        // last one handed out when the token was here
	inside bool          //
	end    protocol.Time // of the present critical section, as declared
	wishes []protocol.Wish
}

func newDeadlineCore(e *static.Env, tree *static.Tree, o DeadlineOptions) *deadlineCore {
	c := &deadlineCore{
		Env: e, tree: tree, options: o, hop: e.Config.Timing.Hop,
		father: e.Self, over: make([]uint64, e.N),
	}
	if root := tree.Root(); root != e.Self {
		c.father = tree.Next(e.Self, root)
	} else {
		c.fence = e.Floor
	}
	return c
}

func (c *deadlineCore) holding() bool { return c.father == c.Self }

// Free implements static.Taker.
func (c *deadlineCore) Free() bool { return c.holding() && !c.inside && len(c.queue) == 0 }

// deadlineFarthest bounds the times on the wire: 36 years.
const deadlineFarthest = 1 << 60

// Ask implements static.Core.
func (c *deadlineCore) Ask(r *static.Request) {
	e := deadlineEntry{id: r.ID, origin: c.Self, priority: r.Priority, deadline: r.Deadline, hold: r.Hold}
	if e.hold <= 0 || e.hold > deadlineFarthest {
		e.hold = protocol.Never
	}
	if e.deadline > deadlineSum(c.Now(), deadlineFarthest) {
		e.deadline = protocol.Never
	}
	if !c.consider(e) {
		c.Refuse(protocol.ReasonUnattainable)
		return
	}
	if e.deadline != protocol.Never && c.queue.of(c.Self) != nil {
		c.WakeAt(e.deadline + 1)
	}
}

// consider takes a request that has come here, from the own application or a
// neighbor, and accepts it or passes it on; or it returns false.
func (c *deadlineCore) consider(e deadlineEntry) bool {
	c.expire()
	if !c.admit(&e) || !c.holding() && !c.answerable(&e) {
		return false
	}
	if c.holding() {
		c.accept(e)
		c.serve()
		return true
	}
	e.tentative = c.options.Acknowledge
	c.queue.put(e)
	m := c.Send(c.father, protocol.KindRequest)
	m.ID, m.Priority, m.Within, m.Hold = e.id, e.priority, c.within(&e), e.wireHold()
	return true
}

// accept enters a request that is admitted where the token is.
func (c *deadlineCore) accept(e deadlineEntry) {
	e.tentative = false
	c.queue.put(e)
	if c.options.Acknowledge && e.origin != c.Self {
		c.Send(c.tree.Next(c.Self, e.origin), protocol.KindAck).ID = e.id
	}
}

// refuse tells the origin of e that its deadline cannot be promised.
func (c *deadlineCore) refuse(e *deadlineEntry) {
	if e.origin == c.Self {
		c.fail(protocol.ReasonUnattainable)
		return
	}
	m := c.Send(c.tree.Next(c.Self, e.origin), protocol.KindDeny)
	m.ID, m.Reason = e.id, protocol.ReasonUnattainable
}

// fail ends the own request, which waits.
func (c *deadlineCore) fail(reason protocol.Reason) {
	c.WakeAt(protocol.Never)
	c.Refuse(reason)
}

// Leave implements static.Core.
func (c *deadlineCore) Leave() {
	c.inside = false
	c.serve()
}

// Cancel implements static.Canceller.
func (c *deadlineCore) Cancel() {
	c.WakeAt(protocol.Never)
	e := c.queue.of(c.Self)
	if e == nil {
		return
	}
	id := e.id
	c.queue.remove(c.Self)
	if !c.holding() {
		c.Send(c.father, protocol.KindWithdraw).ID = id
	}
}

// Tick implements static.Ticker.
func (c *deadlineCore) Tick() { c.expire() }

// expire drops the requests that are overdue. The own one is told so: missed, or
// if it was never acknowledged, unattainable.
func (c *deadlineCore) expire() {
	for len(c.queue) > 0 && c.queue[0].overdue(c.Now()) {
		e := c.queue[0]
		c.queue.remove(e.origin)
		switch {
		case e.origin != c.Self:
		case e.tentative:
			c.fail(protocol.ReasonUnattainable)
		default:
			c.fail(protocol.ReasonMissed)
		}
	}
}

// serve uses the token: the own application enters, or the token goes on its way
// to whom it is for. Without requests it stays.
func (c *deadlineCore) serve() {
	c.expire()
	if !c.holding() || c.inside || len(c.queue) == 0 {
		return
	}
	e := *c.next()
	if e.origin != c.Self {
		c.pass(c.tree.Next(c.Self, e.origin))
		return
	}
	c.queue.remove(c.Self)
	c.WakeAt(protocol.Never)
	c.inside, c.end = true, deadlineSum(c.Now(), e.hold)
	c.fence++
	c.Enter(c.fence)
}

// pass sends the token to a neighbor, with every request known, and keeps those
// that the token will come back through here for.
func (c *deadlineCore) pass(to int) {
	c.wishes = c.wishes[:0]
	kept := c.queue[:0]
	for _, e := range c.queue {
		c.wishes = append(c.wishes, protocol.Wish{
			ID: e.id, Priority: e.priority, Within: c.within(&e), Hold: e.wireHold(),
		})
		if e.origin == c.Self || c.tree.Next(c.Self, e.origin) != to {
			kept = append(kept, e)
		}
	}
	c.queue, c.father = kept, to
	m := c.Send(to, protocol.KindToken)
	m.Fences = protocol.Fences{Next: c.fence + 1, End: math.MaxUint64}
	m.Wishes = c.wishes
}

// within is the time that e has left, as messages carry it: 0 says that it has no
// deadline, so no time left is said to be a little less.
func (c *deadlineCore) within(e *deadlineEntry) protocol.Duration {
	if e.deadline == protocol.Never {
		return 0
	}
	if left := e.deadline - c.Now(); left != 0 {
		return left
	}
	return -1
}

var errDeadlineQueue = errors.New("the queue of deadlines")

// CheckInvariants reports a queue that is out of order or knows a request that it
// should not.
func (c *deadlineCore) CheckInvariants() error {
	for i := range c.queue {
		e := &c.queue[i]
		switch {
		case !c.holding() && e.origin != c.Self && c.tree.Next(c.Self, e.origin) == c.father:
			return fmt.Errorf("%w has %v, from where the token is", errDeadlineQueue, e.id)
		case c.holding() && e.tentative:
			return fmt.Errorf("%w has %v undecided at the token", errDeadlineQueue, e.id)
		case i > 0 && c.queue[i-1].compare(e) >= 0:
			return fmt.Errorf("%w has %v before %v", errDeadlineQueue, c.queue[i-1].id, e.id)
		}
	}
	return nil
}
