package padme

import "slices"

// Clone returns a machine that behaves as m does from here on and shares nothing
// with it that either may change. It costs about as much as a few Steps: simulators
// and model checkers take it, production never.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out, c.free, c.spare = nil, nil, 0
	c.ancestors = slices.Clone(m.ancestors)
	c.authority.awaited = slices.Clone(m.authority.awaited)
	if m.roll != nil {
		c.roll = m.roll.clone()
	}
	var t twins
	c.parent = t.link(m.parent)
	if m.join != nil {
		j := *m.join
		j.lost = t.link(j.lost)
		c.join = &j
	}
	c.children = make([]*link, len(m.children))
	for i, l := range m.children {
		c.children[i] = t.link(l)
	}
	t.queues(m, &c)
	t.requests(m, &c)
	for i, r := range m.resources {
		c.resources[i].q.take(&r.q, &t)
		c.resources[i].tok = r.tok.clone(&t)
	}
	if m.any != nil {
		c.any.take(m.any, &t)
	}
	c.own = make([]*entry, len(m.own))
	for i, e := range m.own {
		c.own[i] = t.entry(e)
	}
	return &c
}

// twins pairs what a machine points to with its copy in the clone.
type twins struct {
	links      [][2]*link
	copies     register // of the requests, by name
	fromQ, toQ []*queue
}

func (t *twins) link(l *link) *link {
	if l == nil {
		return nil
	}
	for _, pair := range t.links {
		if pair[0] == l {
			return pair[1]
		}
	}
	c := *l
	// What is kept moves to the front of its memory from time to time.
	c.kept, c.start = slices.Clone(l.kept[l.start:]), 0
	t.links = append(t.links, [2]*link{l, &c})
	return &c
}

// queues makes the clone's resources and queues, still empty.
func (t *twins) queues(m, c *Machine) {
	c.resources = make([]*resource, len(m.resources))
	for i, r := range m.resources {
		c.resources[i] = &resource{q: queue{resource: r.q.resource}}
		t.fromQ, t.toQ = append(t.fromQ, &r.q), append(t.toQ, &c.resources[i].q)
	}
	if m.any != nil {
		c.any = &queue{resource: m.any.resource}
		t.fromQ, t.toQ = append(t.fromQ, m.any), append(t.toQ, c.any)
	}
}

// requests copies every live request. The queues must be there.
func (t *twins) requests(m, c *Machine) {
	c.requests = register{}
	for e := range m.requests.all() {
		twin := *e
		twin.q, twin.from, twin.also = t.toQ[slices.Index(t.fromQ, e.q)], t.link(e.from), nil
		for _, l := range e.also {
			twin.also = append(twin.also, t.link(l))
		}
		c.requests.add(&twin)
	}
	t.copies = c.requests
}

// entry returns the copy of a live request.
func (t *twins) entry(e *entry) *entry {
	if e == nil {
		return nil
	}
	return t.copies.get(e.id)
}

func (q *queue) take(from *queue, t *twins) {
	q.unsent = from.unsent
	q.waiting = make([]*entry, len(from.waiting))
	for i, e := range from.waiting {
		q.waiting[i] = t.entry(e)
	}
	q.below = slices.Clone(from.below)
	for i := range q.below {
		q.below[i].from = t.link(q.below[i].from)
	}
}

func (t *token) clone(tw *twins) token {
	c := *t // passed stays: whom a token was passed to is never changed in place
	c.down, c.inside = tw.link(t.down), tw.entry(t.inside)
	c.entries = slices.Clone(t.entries)
	if t.recovery != nil {
		r := *t.recovery
		r.pending, r.answered = slices.Clone(r.pending), slices.Clone(r.answered)
		if r.holder != nil {
			h := *r.holder
			r.holder = &h
		}
		c.recovery = &r
	}
	if t.holder != nil {
		h := *t.holder
		c.holder = &h
	}
	return c
}

func (r *roll) clone() *roll {
	c := *r
	c.sessions = make([]*memberSession, len(r.sessions))
	for i, s := range r.sessions {
		twin := *s
		c.sessions[i] = &twin
	}
	return &c
}
