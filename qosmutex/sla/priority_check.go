package sla

import "fmt"

// CheckInvariants reports the first broken rule that one participant can see: one
// request from each side and none from where the token is, in the order of service;
// nobody inside without the token, and nobody waiting for one that is here unused.
func (c *core) CheckInvariants() error {
	seen := map[int]bool{}
	for i := range c.queue {
		e := &c.queue[i]
		switch {
		case seen[e.from]:
			return fmt.Errorf("two requests from %s wait", c.name(e.from))
		case e.from == c.holder && !c.here():
			return fmt.Errorf("%s, in whose direction the token is, waits here", c.name(e.from))
		case i > 0 && c.rules.before(e, &c.queue[i-1]):
			return fmt.Errorf("%s waits behind a less important request", c.name(e.from))
		case c.here() && e.from == c.env.Self:
			return fmt.Errorf("the own request waits although the token is here")
		case e.value < e.asked || e.value > maxValue:
			return fmt.Errorf("the request of %s became less important: %d, asked for with %d", c.name(e.from), e.value, e.asked)
		}
		seen[e.from] = true
	}
	switch {
	case c.inside && !c.here():
		return fmt.Errorf("inside without the token")
	case c.Free() && len(c.queue) > 0:
		return fmt.Errorf("%d requests wait for an unused token", len(c.queue))
	}
	return nil
}

// String shows the queue as the figures of the paper do: "Q3 = 6(3), 3(0)".
func (c *core) String() string {
	return "Q" + c.name(c.env.Self) + " = " + c.queue.show(c.name)
}

func (c *core) name(i int) string { return c.env.Node(i).ID }
