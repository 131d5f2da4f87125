package classic

import (
	"errors"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// Lamport is Lamport's algorithm as the lectures give it (rules 1 to 5): everybody
// has a copy of the queue of requests, in order of (clock, participant). A
// participant enters when its request is the first of its copy and it has heard from
// everybody since it was made. Requests are served in exactly that order.
//
// Messages: Request, Ack and Release to and from each of the others, 3(N−1) per
// entry. Delay: the Release, t_m. Any crash stops everybody.
var Lamport = protocol.Algorithm{
	Name: "lamport", Source: "lecture on mutual exclusion, Lamport's algorithm, rules 1 to 5 (Lamport 1978)",
	Messages: "3(N-1)", Delay: "1", Assumes: "channels in order",
	Crash: "of anybody: everybody waits for ever", Static: true,
	New: machine(newLamport),
}

var errClock = errors.New("a clock that its sender has left behind")

type lamport struct {
	env    *static.Env
	fence  fence
	inside bool
	queue  []uint64 // of each participant, the clock of its request; 0: none
	heard  []uint64 // of each other one, the clock of its last message
	acks   []uint64 // of each other one, how many of our requests it has not acknowledged
}

func newLamport(env *static.Env) static.Core {
	return &lamport{
		env: env, fence: fence(env.Floor),
		queue: make([]uint64, env.N), heard: make([]uint64, env.N), acks: make([]uint64, env.N),
	}
}

// Ask implements [static.Core]: rule 1.
func (c *lamport) Ask(r *static.Request) {
	c.queue[c.env.Self] = r.ID.Clock
	for i := range c.env.N {
		if i != c.env.Self {
			c.env.Send(i, protocol.KindRequest).ID = r.ID
			c.acks[i]++
		}
	}
	c.try()
}

// Leave implements [static.Core]: rule 3.
func (c *lamport) Leave() {
	own := turn{c.queue[c.env.Self], c.env.Self}
	c.queue[c.env.Self], c.inside = 0, false
	for i := range c.env.N {
		if i != c.env.Self {
			m := c.env.Send(i, protocol.KindRelease)
			m.ID = name(c.env, own)
			c.fence.put(m)
		}
	}
}

// Receive implements [static.Core]: rules 2 and 4. Who receives a request has seen
// its clock, so that the acknowledgement is later than it.
func (c *lamport) Receive(from int, m *protocol.Message) error {
	if m.Clock <= c.heard[from] {
		return errClock
	}
	if err := checkFence(m); err != nil {
		return err
	}
	who := from
	if m.Kind == protocol.KindAck {
		who = c.env.Self
	}
	clock, err := clockOf(c.env, who, m)
	if err != nil {
		return err
	}
	switch m.Kind {
	case protocol.KindRequest:
		switch {
		case c.queue[from] != 0:
			return errAsked
		case clock <= c.heard[from] || clock >= m.Clock:
			return errClock
		}
		c.queue[from] = clock
		a := c.env.Send(from, protocol.KindAck)
		a.ID = m.ID
		c.fence.put(a)
	case protocol.KindAck:
		if c.acks[from] == 0 {
			return errNobody
		}
		c.acks[from]--
	case protocol.KindRelease:
		if c.queue[from] != clock {
			return errNobody
		}
		c.queue[from] = 0
	default:
		return errKind
	}
	c.heard[from] = m.Clock
	c.fence.learn(m)
	c.try()
	return nil
}

// try is rule 5. Of an entry A before this one, the request was in our queue, since
// we have heard from A after our own was made; it went with A's Release, which told
// A's fence.
func (c *lamport) try() {
	own := turn{c.queue[c.env.Self], c.env.Self}
	if own.isZero() || c.inside {
		return
	}
	for i, clock := range c.queue {
		if i == c.env.Self {
			continue
		}
		if c.heard[i] <= own.clock || clock != 0 && (turn{clock, i}).before(own) {
			return
		}
	}
	c.inside = true
	c.env.Enter(c.fence.next())
}
