package sla

import (
	"fmt"
	"math"

	"padme/qosmutex/protocol"
)

// maxEntries bounds the entries and fences that a token may claim: there is room
// above for all that can ever be made.
const maxEntries = 1 << 63

// serve gives the token, which is here and not in use, to the first of the queue.
func (c *core) serve() {
	if len(c.queue) > 0 {
		c.give(c.queue.pop())
	}
}

// give gives the token to e, which has left the queue.
func (c *core) give(e entry) {
	if e.from == c.env.Self {
		c.enter()
		return
	}
	c.holder = e.from
	m := c.env.Send(e.from, protocol.KindToken)
	m.Number = c.executed
	m.Fences = protocol.Fences{Next: c.fence, End: math.MaxUint64}
	for i := range c.queue {
		c.queue[i].old = true
	}
	switch {
	case len(c.queue) == 0:
	case c.rules.piggyback:
		m.Flags |= protocol.FlagWanted
		c.queue[0].describe(m)
	default:
		c.request()
	}
}

// receiveToken takes the token. The first of the queue leaves it before what the
// sender wants it back for comes in, so that the token never returns unused.
func (c *core) receiveToken(from int, m *protocol.Message) error {
	if err := c.checkToken(from, m); err != nil {
		return err
	}
	var back entry
	wanted := m.Flags&protocol.FlagWanted != 0
	if wanted {
		var err error
		if back, err = c.entryOf(from, m); err != nil {
			return err
		}
	}
	if c.rules.executed {
		c.queue.growOld(m.Number-c.executed, c.rules)
	}
	c.holder, c.fence, c.executed = c.env.Self, m.Fences.Next, m.Number
	first := c.queue.pop()
	if wanted {
		c.queue.insert(back, c.rules)
	}
	c.give(first)
	return nil
}

// checkToken refuses a token that cannot come now, from there, or at all.
func (c *core) checkToken(from int, m *protocol.Message) error {
	switch {
	case from != c.holder:
		return errNoToken
	case len(c.queue) == 0:
		return errUnasked
	case m.Fences.Next < c.fence || m.Number < c.executed:
		return errStale
	case m.Fences.Next >= maxEntries || m.Fences.End != math.MaxUint64 || m.Number >= maxEntries:
		return fmt.Errorf("%w: fences %d–%d after %d entries", errToken, m.Fences.Next, m.Fences.End, m.Number)
	case m.Flags&protocol.FlagWanted != 0 && !c.rules.piggyback:
		return fmt.Errorf("%w: with a request on it", errToken)
	}
	return nil
}
