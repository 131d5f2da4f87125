package classic

import (
	"errors"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// TokenRing passes a token round the ring of the participants in the order of
// Members ("Solution 2: A ring-based algorithm" of the lectures). Who has it may
// enter once and passes it on when it leaves; who does not want it passes it on at
// once.
//
// The lecture's token circulates for ever, and so does this one. But a token that
// went a full round without an entry rests for Timing.Hop (at least a millisecond)
// at every participant until somebody enters, so that an idle ring costs one message
// per rest and not as many as the network carries. It starts at participant 0 when a
// resource is first asked for there; another participant that asks before it ever saw
// the token sends participant 0 one Request, once, to set it going.
//
// Messages per entry: the hops from the last entry, 1 when everybody wants to enter,
// N when one alone does, more when nobody did for a while. Delay: as many t_m. Does
// not serve in the order of requests. Any crash breaks the ring.
var TokenRing = protocol.Algorithm{
	Name: "token-ring", Source: "lecture on mutual exclusion, solution 2: a ring-based algorithm",
	Messages: "1 (all contend) to N (one does); idle: 1 per Timing.Hop", Delay: "1 to N",
	Assumes: "participant 0 starts the token", Crash: "of anybody: everybody waits for ever", Static: true,
	New: machine(newRing),
}

// minRest keeps an idle token from spinning where Timing.Hop is 0.
const minRest = protocol.Millisecond

var errHops = errors.New("a token that did not come round the ring")

type ring struct {
	env    *static.Env
	fence  fence
	here   bool   // the token is
	wants  bool   // to enter
	inside bool   //
	idle   uint32 // hops of the token since an entry, up to N; while it is here
	due    uint64 // Number of the token when it comes next; of the one here, N more
	known  bool   // we have seen the token
}

func newRing(env *static.Env) static.Core {
	c := &ring{env: env, fence: fence(env.Floor), due: uint64(env.Self)}
	if env.Self == 0 {
		c.here, c.known, c.due = true, true, uint64(env.N)
	}
	return c
}

// Ask implements [static.Core].
func (c *ring) Ask(r *static.Request) {
	c.wants = true
	switch {
	case c.here:
		c.enter()
	case !c.known:
		c.env.Send(0, protocol.KindRequest).ID = r.ID
	}
}

// enter uses the token. It carries the fence of the last entry, so fences rise.
func (c *ring) enter() {
	c.wants, c.inside = false, true
	c.env.WakeAt(protocol.Never)
	c.env.Enter(c.fence.next())
}

// Leave implements [static.Core].
func (c *ring) Leave() {
	c.inside, c.idle = false, 0
	c.pass()
}

// Free implements [static.Taker].
func (c *ring) Free() bool { return c.here }

// Tick implements [static.Ticker]: the token has rested.
func (c *ring) Tick() {
	if c.here && !c.inside {
		c.pass()
	}
}

func (c *ring) pass() {
	if c.env.N == 1 {
		return
	}
	c.here = false
	m := c.env.Send((c.env.Self+1)%c.env.N, protocol.KindToken)
	m.Hops, m.Number = c.idle, c.due-uint64(c.env.N)+1
	c.fence.put(m)
}

// Receive implements [static.Core].
func (c *ring) Receive(from int, m *protocol.Message) error {
	switch m.Kind {
	case protocol.KindRequest:
		return c.start(from, m)
	case protocol.KindToken:
		return c.token(from, m)
	}
	return errKind
}

// start sets the token going. A token that rests here goes on at once, and round the
// ring without a rest: somebody waits.
func (c *ring) start(from int, m *protocol.Message) error {
	if c.env.Self != 0 {
		return errSender
	}
	if _, err := clockOf(c.env, from, m); err != nil {
		return err
	}
	if c.here && !c.inside {
		c.idle = 0
		c.env.WakeAt(protocol.Never)
		c.pass()
	}
	return nil
}

func (c *ring) token(from int, m *protocol.Message) error {
	n := c.env.N
	switch {
	case from != (c.env.Self+n-1)%n:
		return errSender
	case c.here:
		return errTwice
	case m.Number != c.due || int(m.Hops) > n:
		return errHops
	}
	if err := checkFence(m); err != nil {
		return err
	}
	c.fence.learn(m)
	c.here, c.known, c.due = true, true, c.due+uint64(n)
	c.idle = min(m.Hops+1, uint32(n))
	switch {
	case c.wants:
		c.enter()
	case int(c.idle) == n:
		c.env.WakeAt(c.env.Now() + max(c.env.Config.Timing.Hop, minRest))
	default:
		c.pass()
	}
	return nil
}
