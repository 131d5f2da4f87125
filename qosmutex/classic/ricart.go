package classic

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// RicartAgrawala is the algorithm of Ricart and Agrawala, which the lectures name as
// the optimization of Lamport's: a participant enters when everybody has replied to
// its request. Who waits with an earlier request, or is inside, replies when it
// leaves. Requests are served in the order of (clock, participant).
//
// Messages: Request and Reply to and from each of the others, 2(N−1) per entry.
// Delay: the deferred Reply, t_m. Any crash stops everybody.
var RicartAgrawala = protocol.Algorithm{
	Name: "ricart-agrawala", Source: "lecture on mutual exclusion, other algorithms (Ricart and Agrawala 1981)",
	Messages: "2(N-1)", Delay: "1", Assumes: "nothing of the order of channels",
	Crash: "of anybody: everybody waits for ever", Static: true,
	New: machine(newRicart),
}

type ricart struct {
	env      *static.Env
	fence    fence
	own      turn // waits or is inside
	missing  int  // replies to it
	replied  []bool
	deferred []uint64 // of each participant, the clock of its request that we have not replied to
	newest   []uint64 // of each participant, the clock of its latest request
}

func newRicart(env *static.Env) static.Core {
	return &ricart{
		env: env, fence: fence(env.Floor),
		replied: make([]bool, env.N), deferred: make([]uint64, env.N), newest: make([]uint64, env.N),
	}
}

// Ask implements [static.Core].
func (c *ricart) Ask(r *static.Request) {
	c.own, c.missing = turn{r.ID.Clock, c.env.Self}, c.env.N-1
	clear(c.replied)
	for i := range c.env.N {
		if i != c.env.Self {
			c.env.Send(i, protocol.KindRequest).ID = r.ID
		}
	}
	c.try()
}

// Leave implements [static.Core].
func (c *ricart) Leave() {
	c.own = turn{}
	for i, clock := range c.deferred {
		if clock != 0 {
			c.deferred[i] = 0
			c.reply(turn{clock, i})
		}
	}
}

func (c *ricart) reply(t turn) {
	m := c.env.Send(t.who, protocol.KindReply)
	m.ID = name(c.env, t)
	c.fence.put(m)
}

// Receive implements [static.Core].
func (c *ricart) Receive(from int, m *protocol.Message) error {
	switch m.Kind {
	case protocol.KindRequest:
		return c.request(from, m)
	case protocol.KindReply:
		return c.consent(from, m)
	}
	return errKind
}

func (c *ricart) request(from int, m *protocol.Message) error {
	clock, err := clockOf(c.env, from, m)
	switch {
	case err != nil:
		return err
	case c.deferred[from] != 0:
		return errAsked
	case clock <= c.newest[from]:
		return errRepeat
	}
	c.newest[from] = clock
	t := turn{clock, from}
	inside := !c.own.isZero() && c.missing == 0
	if inside || !c.own.isZero() && c.own.before(t) {
		c.deferred[from] = clock
		return nil
	}
	c.reply(t)
	return nil
}

func (c *ricart) consent(from int, m *protocol.Message) error {
	clock, err := clockOf(c.env, c.env.Self, m)
	switch {
	case err != nil:
		return err
	case c.own.clock != clock || c.replied[from]:
		return errNobody
	}
	if err := checkFence(m); err != nil {
		return err
	}
	c.fence.learn(m)
	c.replied[from] = true
	c.missing--
	c.try()
	return nil
}

// try enters once everybody has replied. Of an entry A before this one, the reply
// came after A left: A would have replied earlier only to a request before its own,
// and would have entered after us.
func (c *ricart) try() {
	if c.missing == 0 {
		c.env.Enter(c.fence.next())
	}
}
