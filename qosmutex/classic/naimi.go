package classic

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// NaimiTrehel is the algorithm of Naimi, Trehel and Arnold (1996) with a dynamic
// tree. father is whom a participant believes to have asked last; requests travel
// from father to father, and everybody on the way takes the one who asks as its new
// father (path reversal). The one who asked last keeps in next who asked after it,
// and sends it the token when it leaves.
//
// Messages: the Requests along the way and the token, if it is not here; O(log N) on
// average over all sequences of requests, N at most; 0 if the token is here and free.
// Delay: the token, t_m. The token starts at participant 0, everybody's first father.
// The crash of one who has the token or waits stops those behind it.
var NaimiTrehel = protocol.Algorithm{
	Name: "naimi-trehel", Source: "Naimi, Trehel and Arnold 1996: a log(N) distributed mutual exclusion algorithm based on path reversal",
	Messages: "O(log N) on average, 0 to N", Delay: "1", Assumes: "participant 0 has the token first",
	Crash: "of the holder, or on the way of a request: others wait for ever", Static: true,
	New: machine(newNaimi),
}

const nobody = -1

type naimi struct {
	env    *static.Env
	fence  fence
	father int  // nobody: the own request is the last, or the token is here and free
	next   turn // gets the token when we leave; zero: nobody
	own    turn // waits or is inside
	here   bool // the token is
	newest []uint64
}

func newNaimi(env *static.Env) static.Core {
	c := &naimi{env: env, fence: fence(env.Floor), newest: make([]uint64, env.N)}
	if env.Self == 0 {
		c.here, c.father = true, nobody
	}
	return c
}

// Ask implements [static.Core].
func (c *naimi) Ask(r *static.Request) {
	c.own = turn{r.ID.Clock, c.env.Self}
	if c.father == nobody {
		c.env.Enter(c.fence.next())
		return
	}
	c.env.Send(c.father, protocol.KindRequest).ID = r.ID
	c.father = nobody
}

// Free implements [static.Taker].
func (c *naimi) Free() bool { return c.here }

// Leave implements [static.Core].
func (c *naimi) Leave() {
	c.own = turn{}
	if !c.next.isZero() {
		c.pass(c.next)
		c.next = turn{}
	}
}

func (c *naimi) pass(t turn) {
	c.here = false
	m := c.env.Send(t.who, protocol.KindToken)
	m.ID = name(c.env, t)
	c.fence.put(m)
}

// Receive implements [static.Core].
func (c *naimi) Receive(_ int, m *protocol.Message) error {
	switch m.Kind {
	case protocol.KindRequest:
		return c.request(m)
	case protocol.KindToken:
		return c.token(m)
	}
	return errKind
}

// request comes from the one who asks or from anybody on the way. Our own never
// comes back: who saw it has us as father, or somebody who asked later.
func (c *naimi) request(m *protocol.Message) error {
	who, ok := c.env.Index(m.ID.Node)
	switch {
	case !ok || who == c.env.Self || m.ID.Clock == 0:
		return errOrigin
	case m.ID.Clock <= c.newest[who]:
		return errRepeat
	}
	t := turn{m.ID.Clock, who}
	c.newest[who] = t.clock
	switch {
	case c.father != nobody:
		c.env.Send(c.father, protocol.KindRequest).ID = m.ID
	case !c.own.isZero():
		c.next = t
	default:
		c.pass(t)
	}
	c.father = who
	return nil
}

// token is for the own request. It carries the fence of the last entry, so fences
// rise.
func (c *naimi) token(m *protocol.Message) error {
	clock, err := clockOf(c.env, c.env.Self, m)
	switch {
	case err != nil:
		return err
	case c.here:
		return errTwice
	case c.own.clock != clock:
		return errNobody
	}
	if err := checkFence(m); err != nil {
		return err
	}
	c.fence.learn(m)
	c.here = true
	c.env.Enter(c.fence.next())
	return nil
}
