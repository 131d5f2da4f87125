package padme

import "slices"

// Clone returns a machine that behaves as m does from here on and shares nothing
// with it that either may change. It costs about as much as a few Steps: simulators
// and model checkers take it, production never.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out, c.spare = nil, nil
	c.links, c.tree, c.sessions = m.links.clone(), m.tree.clone(), m.sessions.clone()
	c.resources = each(m.resources, copied)
	c.requests = each(m.requests, c.entryLike)
	c.own = each(m.own, c.twin)
	c.adopt(&c.any)
	for _, r := range c.resources {
		c.adopt(&r.q)
		t := &r.tok // passed stays: whom a token was passed to is never changed in place
		t.down, t.inside = c.childLike(t.down), c.twin(t.inside)
		t.entries, t.holder, t.recovery = slices.Clone(t.entries), copied(t.holder), t.recovery.clone()
		if t.follows = copied(t.follows); t.follows != nil {
			t.follows.list = slices.Clone(t.follows.list)
		}
	}
	return &c
}

// entryLike copies a request for a clone that has its links and queues.
func (m *Machine) entryLike(e *entry) *entry {
	e = copied(e)
	e.q, e.from, e.also = m.queueOf(e.q.resource), m.childLike(e.from), slices.Clone(e.also)
	for i := range e.also {
		e.also[i].link = m.childLike(e.also[i].link)
	}
	return e
}

// twin is the clone's copy of a live request.
func (m *Machine) twin(e *entry) *entry {
	if e == nil {
		return nil
	}
	return m.requests.get(e.id)
}

// childLike is the clone's copy of a link to a child.
func (m *Machine) childLike(l *link) *link {
	if l == nil {
		return nil
	}
	return m.child(l.peer)
}

// adopt makes a copied queue one of the clone's.
func (m *Machine) adopt(q *queue) {
	q.waiting, q.below = each(q.waiting, m.twin), slices.Clone(q.below)
	for i := range q.below {
		q.below[i].from = m.childLike(q.below[i].from)
	}
}

func (rec *recovery) clone() *recovery {
	c := copied(rec)
	if c != nil {
		c.pending, c.answered = slices.Clone(rec.pending), slices.Clone(rec.answered)
	}
	return c
}

// copied is a copy of what p points to; nil of nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func each[T any](list []*T, f func(*T) *T) []*T {
	if list == nil {
		return nil
	}
	c := make([]*T, len(list))
	for i, p := range list {
		c[i] = f(p)
	}
	return c
}
