package classic

import (
	"errors"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// SuzukiKasami is the broadcast algorithm of Suzuki and Kasami (1985). There is one
// token; who wants it tells everybody. The token carries LN, the number of the
// request of each participant that was served last, and the queue of those that wait
// for it. Request numbers are clocks here: they rise, which is all that the algorithm
// needs of them.
//
// On the wire the token's Wishes have, for each participant that was served or is
// queued, LN as ID.Clock and its place in the queue from 1 on as Priority, 0 if it is
// not in it.
//
// Messages: N−1 Requests and the token, N per entry; 0 if the token is here and free.
// Delay: the token, t_m. The token starts at participant 0. The crash of the holder
// stops everybody; of another, those who wait behind it once the token goes there.
var SuzukiKasami = protocol.Algorithm{
	Name: "suzuki-kasami", Source: "Suzuki and Kasami 1985: a distributed mutual exclusion algorithm",
	Messages: "N (0 if the token is here)", Delay: "1", Assumes: "participant 0 has the token first",
	Crash: "of the holder, or of anybody who waits: everybody waits for ever", Static: true,
	New: machine(newSuzuki),
}

var errWishes = errors.New("a token whose queue nobody wrote")

type suzuki struct {
	env    *static.Env
	fence  fence
	here   bool // the token is
	inside bool
	waits  bool
	clock  uint64          // of the latest own request
	newest []uint64        // RN: of each participant, its latest request that we have seen
	served []uint64        // LN, while the token is here
	queue  []int           // while the token is here
	wishes []protocol.Wish // of the token that leaves
}

func newSuzuki(env *static.Env) static.Core {
	return &suzuki{
		env: env, fence: fence(env.Floor), here: env.Self == 0,
		newest: make([]uint64, env.N), served: make([]uint64, env.N),
	}
}

// Ask implements [static.Core].
func (c *suzuki) Ask(r *static.Request) {
	c.clock = r.ID.Clock
	c.newest[c.env.Self] = c.clock
	if c.here {
		c.enter()
		return
	}
	c.waits = true
	for i := range c.env.N {
		if i != c.env.Self {
			c.env.Send(i, protocol.KindRequest).ID = r.ID
		}
	}
}

// enter uses the token. It carries the fence of the last entry, so fences rise.
func (c *suzuki) enter() {
	c.waits, c.inside = false, true
	c.env.Enter(c.fence.next())
}

// Free implements [static.Taker].
func (c *suzuki) Free() bool { return c.here }

// Leave implements [static.Core]. Those that asked meanwhile join the queue, the
// next after us in the order of Members first.
func (c *suzuki) Leave() {
	c.inside = false
	c.served[c.env.Self] = c.clock
	for k := 1; k < c.env.N; k++ {
		i := (c.env.Self + k) % c.env.N
		if c.newest[i] > c.served[i] && !slices.Contains(c.queue, i) {
			c.queue = append(c.queue, i)
		}
	}
	if len(c.queue) > 0 {
		c.pass()
	}
}

// pass sends the token to the first in the queue.
func (c *suzuki) pass() {
	to := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.here = false
	c.wishes = c.wishes[:0]
	for i, clock := range c.served {
		place := slices.Index(c.queue, i) + 1
		if clock != 0 || place != 0 {
			c.wishes = append(c.wishes, protocol.Wish{ID: name(c.env, turn{clock, i}), Priority: int64(place)})
		}
	}
	m := c.env.Send(to, protocol.KindToken)
	m.Wishes = c.wishes
	c.fence.put(m)
}

// Receive implements [static.Core].
func (c *suzuki) Receive(from int, m *protocol.Message) error {
	switch m.Kind {
	case protocol.KindRequest:
		return c.request(from, m)
	case protocol.KindToken:
		return c.token(m)
	}
	return errKind
}

// request remembers the wish. It may be served already: the Request was slower than
// the token that came by others.
func (c *suzuki) request(from int, m *protocol.Message) error {
	clock, err := clockOf(c.env, from, m)
	switch {
	case err != nil:
		return err
	case clock <= c.newest[from]:
		return errRepeat
	}
	c.newest[from] = clock
	if c.here && !c.inside && clock > c.served[from] {
		c.queue = append(c.queue, from)
		c.pass()
	}
	return nil
}

func (c *suzuki) token(m *protocol.Message) error {
	switch {
	case c.here:
		return errTwice
	case !c.waits:
		return errNobody
	}
	if err := checkFence(m); err != nil {
		return err
	}
	queued, err := c.check(m.Wishes)
	if err != nil {
		return err
	}
	c.fence.learn(m)
	c.here = true
	c.queue = append(c.queue[:0], make([]int, queued)...) // all places are named, as checked
	for _, w := range m.Wishes {
		i, _ := c.env.Index(w.ID.Node)
		c.served[i] = w.ID.Clock
		if w.Priority > 0 {
			c.queue[w.Priority-1] = i
		}
	}
	c.enter()
	return nil
}

// check tells how many are in the queue of a token: every participant is named once
// at most, their places are 1, 2, 3 and so on, and we are not among them, nor served
// beyond our last request but one.
func (c *suzuki) check(wishes []protocol.Wish) (queued int, err error) {
	named, taken := make([]bool, c.env.N), make([]bool, c.env.N+1)
	for _, w := range wishes {
		i, ok := c.env.Index(w.ID.Node)
		if !ok || named[i] || w.Priority < 0 || w.Priority > int64(c.env.N) || w.Priority > 0 && taken[w.Priority] {
			return 0, errWishes
		}
		if i == c.env.Self && (w.Priority != 0 || w.ID.Clock >= c.clock) {
			return 0, errWishes
		}
		named[i] = true
		if w.Priority > 0 {
			taken[w.Priority] = true
			queued++
		}
	}
	if slices.Contains(taken[1:queued+1], false) {
		return 0, errWishes
	}
	return queued, nil
}
