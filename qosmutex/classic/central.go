package classic

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// Central is the central lock server of the lectures ("Solution 1: Centralized Lock
// Server"): participant 0 keeps one queue, in order of priority, equals in order of
// arrival. A request follows its participant's priority while it waits, and joins
// its new equals behind them.
//
// Messages: Request, Reply and Release, 3 per entry, none for the server's own.
// Delay: Release and Reply, 2 t_m; 1 where the server is one of the two. A change of
// priority and a withdrawal cost 1 each. The crash of the server stops everybody;
// of the holder, everybody who waits; of another, nobody.
var Central = protocol.Algorithm{
	Name: "central", Source: "lecture on mutual exclusion, solution 1: centralized lock server",
	Messages: "3 (0 at the server)", Delay: "2", Assumes: "channels in order; participant 0 is the server",
	Crash: "of the server or the holder: everybody waits for ever", Static: true,
	New: machine(func(e *static.Env) static.Core { return newCentral(e, false) }),
}

// CentralFIFO is [Central] with a queue in order of arrival alone, as the lecture has
// it. Priorities mean nothing to it.
var CentralFIFO = protocol.Algorithm{
	Name: "central-fifo", Source: Central.Source,
	Messages: Central.Messages, Delay: Central.Delay, Assumes: Central.Assumes, Crash: Central.Crash, Static: true,
	New: machine(func(e *static.Env) static.Core { return newCentral(e, true) }),
}

// central is a client, and at participant 0 the server as well.
type central struct {
	env    *static.Env
	fifo   bool
	clock  uint64  // of the latest own request
	waits  bool    // for the server
	server *server // at participant 0
}

func newCentral(env *static.Env, fifo bool) *central {
	c := &central{env: env, fifo: fifo}
	if env.Self == 0 {
		c.server = &server{env: env, fence: fence(env.Floor), newest: make([]uint64, env.N)}
	}
	return c
}

// Ask implements [static.Core].
func (c *central) Ask(r *static.Request) {
	c.clock, c.waits = r.ID.Clock, true
	c.request(r)
}

// Change implements [static.Changer]. The server may have granted meanwhile; it then
// overlooks the second Request.
func (c *central) Change(r *static.Request) {
	if !c.fifo {
		c.request(r)
	}
}

func (c *central) request(r *static.Request) {
	priority := r.Priority
	if c.fifo {
		priority = 0
	}
	if c.server == nil {
		m := c.env.Send(0, protocol.KindRequest)
		m.ID, m.Priority, m.Hold = r.ID, priority, r.Hold
		return
	}
	_ = c.server.request(turn{c.clock, c.env.Self}, priority) // our own never is out of order
	c.serve()
}

// Leave implements [static.Core].
func (c *central) Leave() { c.end(protocol.KindRelease) }

// Cancel implements [static.Canceller].
func (c *central) Cancel() {
	c.waits = false
	c.end(protocol.KindWithdraw)
}

func (c *central) end(kind protocol.Kind) {
	own := turn{c.clock, c.env.Self}
	if c.server == nil {
		c.env.Send(0, kind).ID = name(c.env, own)
		return
	}
	_ = c.server.end(own, kind)
	c.serve()
}

// Free implements [static.Taker].
func (c *central) Free() bool {
	return c.server != nil && c.server.holder.isZero() && len(c.server.queue) == 0
}

// Receive implements [static.Core].
func (c *central) Receive(from int, m *protocol.Message) error {
	if c.server == nil {
		return c.granted(from, m)
	}
	clock, err := clockOf(c.env, from, m)
	if err != nil {
		return err
	}
	t := turn{clock, from}
	switch m.Kind {
	case protocol.KindRequest:
		priority := m.Priority
		if c.fifo {
			priority = 0
		}
		err = c.server.request(t, priority)
	case protocol.KindRelease, protocol.KindWithdraw:
		err = c.server.end(t, m.Kind)
	default:
		return errKind
	}
	if err != nil {
		return err
	}
	c.serve()
	return nil
}

// granted takes the server's Reply. One that crossed our Withdraw is over already:
// the server takes the Withdraw for its Release.
func (c *central) granted(from int, m *protocol.Message) error {
	if m.Kind != protocol.KindReply {
		return errKind
	}
	if from != 0 {
		return errSender
	}
	clock, err := clockOf(c.env, c.env.Self, m)
	if err != nil {
		return err
	}
	if err := checkFence(m); err != nil {
		return err
	}
	switch {
	case clock > c.clock || clock == c.clock && m.Fences.Next == 0:
		return errNobody
	case clock == c.clock && c.waits:
		c.waits = false
		c.env.Enter(m.Fences.Next)
	}
	return nil
}
