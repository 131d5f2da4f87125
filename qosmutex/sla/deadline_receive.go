package sla

import (
	"errors"
	"math"
	"slices"

	"padme/qosmutex/protocol"
)

// Messages that no correct participant sends.
var (
	errDeadlineKind   = errors.New("not a message of the deadline algorithm")
	errDeadlineSender = errors.New("not from where such a message comes")
	errDeadlineOrigin = errors.New("of a request that cannot have come this way")
	errDeadlineOld    = errors.New("of a request that a newer one has replaced")
	errDeadlineTime   = errors.New("of an impossible time")
	errDeadlineFence  = errors.New("a token whose fences do not rise")
	errDeadlineTwice  = errors.New("a token that lists a participant twice")
)

// Receive implements static.Core.
func (c *deadlineCore) Receive(from int, m *protocol.Message) error {
	if c.tree.Distance(c.Self, from) != 1 {
		return errDeadlineSender
	}
	switch m.Kind {
	case protocol.KindRequest:
		return c.request(from, m)
	case protocol.KindWithdraw:
		return c.withdraw(from, m)
	case protocol.KindAck, protocol.KindDeny:
		return c.answer(from, m)
	case protocol.KindToken:
		return c.token(from, m)
	}
	return errDeadlineKind
}

// upward finds the origin of a message that travels from it toward the token.
func (c *deadlineCore) upward(from int, m *protocol.Message) (origin int, err error) {
	origin, ok := c.Index(m.ID.Node)
	switch {
	case !ok || origin == c.Self || c.tree.Next(c.Self, origin) != from:
		return 0, errDeadlineOrigin
	case m.ID.Clock <= c.over[origin]:
		return 0, errDeadlineOld
	}
	return origin, nil
}

func (c *deadlineCore) request(from int, m *protocol.Message) error {
	origin, err := c.upward(from, m)
	if err != nil {
		return err
	}
	e, err := c.entry(m.ID, origin, m.Priority, m.Within, m.Hold)
	if err != nil {
		return err
	}
	if old := c.queue.of(origin); old != nil && old.id.Clock >= m.ID.Clock {
		return errDeadlineOld
	}
	// A request from where the token is has crossed it on this link: the neighbor
	// put it into the token's queue or refused it.
	if from != c.father && !c.consider(e) {
		c.refuse(&e)
	}
	return nil
}

// entry reads a request from a message. The deadline on the own clock is exact if
// the message took one Hop, too early if it was faster.
func (c *deadlineCore) entry(id protocol.RequestID, origin int, priority int64, within, hold protocol.Duration) (deadlineEntry, error) {
	if within < -deadlineFarthest || within > deadlineFarthest || hold < 0 || hold > deadlineFarthest {
		return deadlineEntry{}, errDeadlineTime
	}
	e := deadlineEntry{id: id, origin: origin, priority: priority, deadline: protocol.Never, hold: hold}
	if within != 0 {
		e.deadline = c.Now() + within - c.hop
	}
	if hold == 0 {
		e.hold = protocol.Never
	}
	return e, nil
}

func (c *deadlineCore) withdraw(from int, m *protocol.Message) error {
	origin, err := c.upward(from, m)
	if err != nil {
		return err
	}
	e := c.queue.of(origin)
	if e != nil && e.id.Clock > m.ID.Clock {
		return errDeadlineOld
	}
	c.over[origin] = m.ID.Clock
	if from == c.father {
		return nil // crossed the token; the neighbor does not let it list the request
	}
	c.queue.remove(origin)
	if !c.holding() {
		c.Send(c.father, protocol.KindWithdraw).ID = m.ID
	}
	return nil
}

// answer takes the word of the participant that decided about a request, and
// passes it on to its origin.
func (c *deadlineCore) answer(from int, m *protocol.Message) error {
	origin, ok := c.Index(m.ID.Node)
	switch {
	case from != c.father:
		return errDeadlineSender
	case !ok || origin != c.Self && c.tree.Next(c.Self, origin) == from:
		return errDeadlineOrigin
	case m.Kind == protocol.KindAck && !c.options.Acknowledge, m.Kind == protocol.KindDeny && m.Reason != protocol.ReasonUnattainable:
		return errDeadlineKind
	}
	e := c.queue.of(origin)
	if e != nil && e.id.Clock != m.ID.Clock {
		e = nil // about an older request
	}
	promised := e != nil && c.options.Acknowledge && !e.tentative
	switch {
	case e != nil && m.Kind == protocol.KindAck:
		e.tentative = false
	case e != nil:
		c.queue.remove(origin)
	}
	switch {
	case origin != c.Self:
		on := c.Send(c.tree.Next(c.Self, origin), m.Kind)
		on.ID, on.Reason = m.ID, m.Reason
	case e == nil || m.Kind == protocol.KindAck:
	case promised:
		c.fail(protocol.ReasonMissed)
	default:
		c.fail(protocol.ReasonUnattainable)
	}
	return nil
}

// token takes the token. The requests that are here and that it does not list were
// on their way when it passed them, and are decided now.
func (c *deadlineCore) token(from int, m *protocol.Message) error {
	listed, err := c.listed(from, m)
	if err != nil {
		return err
	}
	listed = slices.DeleteFunc(listed, c.isOver)
	local := slices.DeleteFunc(c.queue, func(e deadlineEntry) bool { return listed.of(e.origin) != nil })
	c.queue, c.father, c.fence = listed, c.Self, max(m.Fences.Next-1, c.Floor)
	c.merge(local)
	c.serve()
	return nil
}

// listed reads the requests that come with a token.
func (c *deadlineCore) listed(from int, m *protocol.Message) (deadlineQueue, error) {
	switch {
	case from != c.father:
		return nil, errDeadlineSender
	case m.Fences.Next <= c.fence || m.Fences.Next > math.MaxInt64:
		return nil, errDeadlineFence
	case len(m.Wishes) > c.N:
		return nil, errDeadlineTwice
	}
	listed := make(deadlineQueue, 0, len(m.Wishes)+len(c.queue))
	for i := range m.Wishes {
		w := &m.Wishes[i]
		origin, ok := c.Index(w.ID.Node)
		switch {
		case !ok:
			return nil, errDeadlineOrigin
		case listed.of(origin) != nil:
			return nil, errDeadlineTwice
		}
		e, err := c.entry(w.ID, origin, w.Priority, w.Within, w.Hold)
		if err != nil {
			return nil, err
		}
		listed.put(e)
	}
	return listed, nil
}

// isOver reports whether a request that a token lists is known here to be over.
func (c *deadlineCore) isOver(e deadlineEntry) bool {
	here := c.queue.of(e.origin)
	switch {
	case e.origin == c.Self:
		return here == nil || here.id != e.id
	case here != nil:
		return here.id.Clock > e.id.Clock
	}
	return e.id.Clock <= c.over[e.origin]
}

// merge decides about local requests. The paper's literal rule takes them as they
// are.
func (c *deadlineCore) merge(local deadlineQueue) {
	for i := range local {
		if e := &local[i]; c.options.Literal || c.admit(e) {
			c.accept(*e)
		} else {
			c.refuse(e)
		}
	}
}
