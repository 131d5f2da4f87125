package padme

import (
	"slices"

	"padme/qosmutex/protocol"
)

// way is what a child says of a request that came from another one, too.
type way struct {
	link     *link
	priority int64
	hops     uint32
}

// alsoBut is also without l.
func (e *entry) alsoBut(l *link) []way {
	return slices.DeleteFunc(e.also, func(o way) bool { return o.link == l })
}

// viaToo reports whether e came from l, too.
func (e *entry) viaToo(l *link) bool {
	return slices.ContainsFunc(e.also, func(o way) bool { return o.link == l })
}

// present is the way that e takes.
func (e *entry) present() way { return way{e.from, e.priority, e.hops} }

// renamed handles a Request that is known already: its priority may have
// changed, or its way.
func (m *Machine) renamed(l *link, e *entry, msg *protocol.Message) {
	if e.from != l {
		e.also = e.alsoBut(l)
		if !m.mayLead(l, e.id.Node) {
			e.also = slices.Insert(e.also, 0, way{l, msg.Priority, msg.Hops})
			return
		}
		if e.named { // else the other has attached again, and may not name it again
			e.also = append(e.also, e.present())
		}
	}
	e.hops = msg.Hops
	if e.state != waiting {
		e.priority = msg.Priority
	}
	if m.reroute(e, l); e.state != waiting {
		return
	}
	m.touch(e.q.resource)
	e.q.hide(l, msg.Hidden)
	m.reprioritize(e, msg.Priority)
	m.serveQueue(e.q) // it may not have been ready
}

// mayLead reports whether child l may lead to n, for all that is known. Anybody may send a
// Request in the name of others; those that lead nowhere do no harm until the true one
// comes, nor after that.
func (m *Machine) mayLead(l *link, n protocol.Node) bool {
	switch {
	case l.peer == n:
		return true
	case m.role != protocol.Root:
		return m.child(n) == nil
	}
	to := m.wayTo(n)
	return to == nil || to == l
}

// followMoves lets, at the root, requests take the ways that the heartbeats say.
func (m *Machine) followMoves() {
	if !slices.ContainsFunc(m.requests, func(e *entry) bool { return len(e.also) > 0 }) {
		return // nearly always
	}
	for _, e := range slices.Clone(m.requests) {
		if len(e.also) == 0 {
			continue
		}
		to := m.wayTo(e.id.Node)
		i := slices.IndexFunc(e.also, func(o way) bool { return o.link == to })
		if to == nil || i < 0 {
			continue
		}
		other, was := e.also[i], e.present()
		e.also = append(slices.Delete(e.also, i, i+1), was)
		m.take(e, other)
	}
}

// take lets e take another way.
func (m *Machine) take(e *entry, other way) {
	e.hops = other.hops
	if e.state != waiting {
		e.priority = other.priority
	}
	if m.reroute(e, other.link); e.state == waiting {
		m.reprioritize(e, other.priority)
	}
	m.serveQueue(e.q)
}

// reroute notes that child l leads to the origin of e.
func (m *Machine) reroute(e *entry, l *link) {
	old := e.from
	e.from, e.named = l, true
	e.q.prune(old)
	if e.state == served && m.role != protocol.Root {
		// The token crossed this message, or got lost and those above have dropped
		// the request. If it crossed, its Release will settle this, too; but those above
		// know it, and must be told of its priority, even if it is behind others.
		m.wait(e)
		m.sendRequest(e)
	}
}

// takeBack notes that l no longer leads to the origin of e, and reports whether
// nobody else does. Who moves is known on several ways for a while, and what comes on
// an old one may come last.
func (m *Machine) takeBack(e *entry, l *link) bool {
	switch {
	case e.from != l:
		e.also = e.alsoBut(l)
	case len(e.also) == 0:
		return true
	default:
		last := len(e.also) - 1
		other := e.also[last]
		e.also = e.also[:last]
		m.take(e, other)
	}
	return false
}
