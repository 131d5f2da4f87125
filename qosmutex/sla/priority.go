package sla

import (
	"errors"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// rules are what distinguishes the algorithms of the priority family.
type rules struct {
	blind     bool // all requests are equally important
	piggyback bool // what a token leaves behind is asked for on the token itself
	nearest   bool // of equally important requests the nearest comes first
	executed  bool // requests age by the entries made, as Chang's do
	// overtaken is called for a waiting entry when a more important request has been
	// put in front of it.
	overtaken func(e *entry)
}

// algorithm completes a with what all of the family have in common.
func (r rules) algorithm(a protocol.Algorithm) protocol.Algorithm {
	a.Static = true
	a.Assumes = "a static tree, FIFO channels without loss"
	a.Crash = "cuts the tree; if it has the token, nobody enters any more"
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		newCore, err := r.cores(&cfg)
		if err != nil {
			return nil, err
		}
		return static.New(cfg, func(env *static.Env) static.Core { return newCore(env) })
	}
	return a
}

// cores returns what makes the cores of the participant that cfg describes.
func (r rules) cores(cfg *protocol.Config) (func(*static.Env) *core, error) {
	tree, err := static.TreeOf(cfg)
	if err != nil {
		return nil, err
	}
	near, holder := neighbors(tree, slices.Index(cfg.Members, cfg.Self.ID))
	return func(env *static.Env) *core {
		return &core{env: env, rules: &r, near: near, holder: holder, fence: 1}
	}, nil
}

// neighbors are those of participant self in the tree, and the one among them in
// the direction of the root, self if it is the root.
func neighbors(tree *static.Tree, self int) (near []int, holder int) {
	holder = self
	for i, p := range tree.Parent {
		switch {
		case p == self && p >= 0:
			near = append(near, i)
		case i == self && p >= 0:
			near = append(near, p)
			holder = p
		}
	}
	return near, holder
}

// core is one participant's part of an algorithm of the priority family. It is
// Raymond's tree (SLA paper §II) with a queue in order of priority.
type core struct {
	env      *static.Env
	rules    *rules
	near     []int // neighbors in the tree
	holder   int   // the neighbor in the direction of the token; Env.Self: it is here
	queue    queue
	inside   bool
	fence    uint64 // of the next entry, as far as is known here; above 0
	executed uint64 // entries made until the token was last here
}

var (
	_ static.Core    = (*core)(nil)
	_ static.Changer = (*core)(nil)
	_ static.Taker   = (*core)(nil)
)

// Errors of Receive.
var (
	errStranger = errors.New("the sender is no neighbor in the tree")
	errKind     = errors.New("a kind of message that the algorithm does not have")
	errNoToken  = errors.New("the sender cannot have the token")
	errUnasked  = errors.New("nobody here asked for the token")
	errStale    = errors.New("the token is older than one that was here")
	errRequest  = errors.New("no such request can be")
	errToken    = errors.New("no such token can be")
)

// Ask implements [static.Core].
func (c *core) Ask(r *static.Request) {
	if c.here() {
		c.enter()
		return
	}
	c.place(c.own(r))
}

// Change implements [static.Changer]: the new request takes the place of the old
// one here and, by a request of its own where the old one was the best, in every
// queue on the way to the token that still has the old one (§IV-C). A priority that
// is the same on the scale of [Levels] changes nothing.
func (c *core) Change(r *static.Request) {
	e := c.own(r)
	same := func(o entry) bool { return o.from == e.from && o.id == e.id && o.asked == e.asked }
	if !slices.ContainsFunc(c.queue, same) {
		c.place(e)
	}
}

// Leave implements [static.Core].
func (c *core) Leave() {
	c.inside = false
	c.executed++
	if c.rules.executed {
		c.queue.grow(1)
	}
	c.serve()
}

// Free implements [static.Taker].
func (c *core) Free() bool { return c.here() && !c.inside }

// Receive implements [static.Core].
func (c *core) Receive(from int, m *protocol.Message) error {
	if !slices.Contains(c.near, from) {
		return errStranger
	}
	switch m.Kind {
	case protocol.KindRequest:
		return c.receiveRequest(from, m)
	case protocol.KindToken:
		return c.receiveToken(from, m)
	}
	return errKind
}

func (c *core) receiveRequest(from int, m *protocol.Message) error {
	e, err := c.entryOf(from, m)
	if err != nil {
		return err
	}
	if from == c.holder {
		// It crossed the token, which is on its way there or there already and told
		// the sender all that this queue lacks.
		return nil
	}
	c.place(e)
	if c.Free() {
		c.serve()
	}
	return nil
}

func (c *core) here() bool { return c.holder == c.env.Self }

func (c *core) own(r *static.Request) entry {
	e := entry{from: c.env.Self, id: r.ID}
	if !c.rules.blind {
		e.value = valueOf(r.Priority)
	}
	e.asked = e.value
	return e
}

// entryOf reads the request that a message of a neighbor carries.
func (c *core) entryOf(from int, m *protocol.Message) (entry, error) {
	least, most := wireOf(maxValue), wireOf(0)
	switch {
	case c.rules.blind:
		least = most
	case !c.rules.executed:
		least = 0
	}
	origin, ok := c.env.Index(m.ID.Node)
	switch {
	case !ok || origin == c.env.Self:
		return entry{}, fmt.Errorf("%w: of %q", errRequest, m.ID.Node.ID)
	case m.Priority < least || m.Priority > most:
		return entry{}, fmt.Errorf("%w: of priority %d", errRequest, m.Priority)
	case m.Hops < 1 || int64(m.Hops) >= int64(c.env.N):
		return entry{}, fmt.Errorf("%w: from %d links away", errRequest, m.Hops)
	}
	value := wireOf(m.Priority)
	return entry{from: from, id: m.ID, value: value, asked: value, hops: int(m.Hops)}, nil
}

// place puts a request where it belongs, in the place of an earlier one from the
// same side, and tells the neighbor in the direction of the token if it has to
// know: the queue was empty, the request is more important than the best one was,
// or it takes the place of the best one and was asked for with less importance.
func (c *core) place(e entry) {
	var best entry
	empty := len(c.queue) == 0
	if !empty {
		best = c.queue[0]
	}
	c.queue.remove(e.from)
	c.queue.insert(e, c.rules)
	falls := !empty && best.from == e.from && e.value < best.asked
	if !c.here() && (empty || e.value > best.value || falls) {
		c.request()
	}
}

// request asks the neighbor in the direction of the token for it, on behalf of
// the first of the queue.
func (c *core) request() {
	c.queue[0].describe(c.env.Send(c.holder, protocol.KindRequest))
}

// enter lets the own application in.
func (c *core) enter() {
	c.fence = max(c.fence, c.env.Floor+1) // the floors of participants may differ
	c.inside = true
	c.fence++
	c.env.Enter(c.fence - 1)
}
