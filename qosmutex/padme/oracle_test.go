package padme

import (
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// entered notes an entry and checks that fences rise (I2).
func (w *world) entered(n *node, g protocol.Granted) {
	if i := slices.IndexFunc(n.noted, func(h protocol.Held) bool { return h.Ref == g.Ref }); i >= 0 {
		if h := n.noted[i]; g.Fence != h.Fence || g.Fence != w.fences[g.Resource] || g.Resource != h.Resource || g.Priority != h.Priority {
			w.fail("%s goes on with %s, fence %d, and had noted %v after fence %d", n.name, g.Resource, g.Fence, h, w.fences[g.Resource])
		}
		n.refs = append(n.refs, request{ref: g.Ref, resource: g.Resource, inside: true})
		n.inside[g.Resource] = g
		for _, b := range n.befores {
			delete(b.inside, g.Resource)
		}
		return
	}
	if g.Fence <= w.fences[g.Resource] {
		w.fail("%s enters %s with fence %d after fence %d", n.name, g.Resource, g.Fence, w.fences[g.Resource])
	}
	if !w.valid(n) {
		w.fail("%s enters %s without a valid session", n.name, g.Resource)
	}
	i := slices.IndexFunc(n.refs, func(r request) bool { return r.ref == g.Ref && !r.inside })
	if i < 0 {
		w.fail("%s enters %s for request %d, which does not wait", n.name, g.Resource, g.Ref)
		return
	}
	n.refs[i].inside = true
	if _, twice := n.inside[g.Resource]; twice {
		w.fail("%s enters %s twice", n.name, g.Resource)
	}
	w.fences[g.Resource] = g.Fence
	n.inside[g.Resource] = g
	if !w.holds(n, g.Resource) {
		w.fail("%s enters %s when its hold is over", n.name, g.Resource)
	}
}

// valid reports whether n has a session, or lease, on its own clock.
func (w *world) valid(n *node) bool { return w.clock(n) < n.machine.ValidUntil() && !n.crashed }

// holds reports whether a hold of n passes Check now.
func (w *world) holds(n *node, resource string) bool {
	g, ok := n.inside[resource]
	return ok && w.valid(n) && (g.Until == 0 || w.clock(n) < g.Until)
}

// goesOn reports whether somebody goes by a hold of a process that has ended.
func (w *world) goesOn(before *node, resource string) bool {
	g, ok := before.inside[resource]
	return ok && w.clock(before) < before.machine.ValidUntil() && (g.Until == 0 || w.clock(before) < g.Until)
}

// confirmed notes that a hold lasts as long as the session.
func (n *node) confirmed(ref uint64) {
	for r, g := range n.inside {
		if g.Ref == ref {
			g.Until = 0
			n.inside[r] = g
		}
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.log("VIOLATION %v", w.failure)
	}
}

// check checks what must hold after every step.
func (w *world) check(n *node) {
	if err := n.machine.CheckInvariants(); err != nil {
		w.fail("%s: %v", n.name, err)
	}
	if c := n.machine.counters.Invalid; c != n.invalid {
		w.fail("%s dropped %d messages as invalid", n.name, c-n.invalid)
	}
	w.checkHolds()
	w.checkRoots()
}

// checkHolds checks that at most one hold for each resource passes Check (I1),
// and that at most one participant that may act on it has each token (I3).
func (w *world) checkHolds() {
	var holder, keeper [8]string // by index of resource; few enough
	for _, name := range w.order {
		n := w.nodes[name]
		for i, r := range w.names() {
			if slices.ContainsFunc(n.befores, func(b *node) bool { return w.goesOn(b, r) }) {
				holder[i] = name
			}
		}
	}
	for _, name := range w.order {
		n := w.nodes[name]
		if !w.valid(n) {
			continue
		}
		for i, r := range w.names() {
			h, inside := n.inside[r]
			if w.holds(n, r) {
				if holder[i] != "" {
					w.fail("%s and %s both hold %s (fence %d and %d)", name, holder[i], r, h.Fence, w.nodes[holder[i]].inside[r].Fence)
				}
				holder[i] = name
			}
			if rec := n.machine.find(r); rec != nil && rec.tok.usable() && (!inside || w.holds(n, r)) {
				if keeper[i] != "" {
					w.fail("%s and %s both have the token of %s", name, keeper[i], r)
				}
				keeper[i] = name
			}
		}
	}
}

// checkRoots checks that at most one root acts (I6).
func (w *world) checkRoots() {
	if roots := w.roots(); len(roots) > 1 {
		w.fail("two roots: %s", strings.Join(roots, " "))
	}
}

// checkQueued checks that every live request is known on every hop up to the
// root, or waits behind another there under Replace (I4), and none but those. It holds when no
// message is in flight and nobody looks for a parent.
func (w *world) checkQueued() {
	for _, name := range w.order {
		n := w.nodes[name]
		if n.crashed || n.machine.role == protocol.Departed {
			continue
		}
		for _, e := range n.machine.own {
			if e.state == waiting && !e.try {
				w.checkClimb(n, e)
			}
		}
		for _, e := range n.machine.requests {
			if e.state == waiting && e.from != nil {
				w.checkLives(n, e)
			}
		}
	}
}

// checkLives checks that a child still knows the request that came from it, or that a
// Release with its entry is yet to come.
func (w *world) checkLives(n *node, e *entry) {
	below := w.nodes[e.from.peer.ID]
	if l := below.machine.parent; below.crashed || l == nil || l.peer != n.machine.self || l.gen != e.from.gen {
		return
	}
	if below.machine.requests.get(e.id) == nil && !w.underway(e.id) {
		w.fail("request %v waits at %s, but %s, that it came from, does not know it", e.id, n.name, below.name)
	}
}

// underway reports whether somebody has an entry of this request to send on.
func (w *world) underway(id protocol.RequestID) bool {
	for _, n := range w.nodes {
		for _, r := range n.machine.resources {
			t := &r.tok
			if slices.ContainsFunc(t.entries, func(e protocol.Entry) bool { return e.ID == id }) {
				return true
			}
		}
	}
	return false
}

func (w *world) checkClimb(n *node, e *entry) {
	id := e.id
	for at := n; at.machine.parent != nil; {
		up := w.nodes[at.machine.parent.peer.ID]
		if up.crashed || at.machine.parent.peer != up.machine.self {
			return
		}
		above := up.machine.requests.get(id)
		if above == nil {
			q := at.machine.queueOf(e.q.resource)
			if h := q.head(); !at.machine.climbs() && h != nil && h.id != id {
				id, above = h.id, up.machine.requests.get(h.id)
			}
		}
		if mine := at.machine.requests.get(id); above == nil && mine != nil && mine.state == served {
			return // granted by a former root: its token is on the way
		}
		if above == nil {
			w.fail("request %s,c%d waits at %s, but %s does not know it", id.Node.ID, id.Clock, at.name, up.name)
			return
		}
		if above.priority != at.machine.requests.get(id).priority {
			w.fail("request %s,c%d has priority %d at %s and %d at %s", id.Node.ID, id.Clock, at.machine.requests.get(id).priority, at.name, above.priority, up.name)
			return
		}
		at = up
	}
}

// checkTreeShape checks that everybody hangs below the root, and that no cycle outlives the beacon time
// (I5): when the root changes, two may move below each other's children at the same moment. It returns
// false while there is one.
func (w *world) checkTreeShape() bool {
	for _, name := range w.order {
		n := w.nodes[name]
		if n.crashed || n.machine.role == protocol.Departed {
			continue
		}
		at, hops := n, 0
		for at.machine.role == protocol.Member && hops <= len(w.order) {
			p := at.machine.parent.peer
			up := w.nodes[p.ID]
			if up == nil || up.crashed || up.machine.self != p || up.machine.child(at.machine.self) == nil {
				w.fail("%s hangs below %s, which has no such child", at.name, p.ID)
				return false
			}
			at = up
			hops++
		}
		switch {
		case hops > len(w.order):
			if w.cyclic == 0 {
				w.cyclic = max(w.now, 1)
			}
			if w.now > w.cyclic+w.timing.Grace()+protocol.Time(len(w.order))*w.timing.Heartbeat {
				w.fail("%s is in a cycle of parents for longer than the beacon time", name)
			}
			return false
		case at.machine.role != protocol.Root:
			w.fail("%s hangs below %s, which is %v", name, at.name, at.machine.role)
		}
	}
	w.cyclic = 0
	return true
}

// checkAtRest checks that nothing is left of any request (I7) and that every
// token is at home, when nobody wants anything any more.
func (w *world) checkAtRest() {
	for _, name := range w.order {
		n := w.nodes[name]
		m := n.machine
		if n.crashed || m.role == protocol.Departed {
			continue
		}
		if up := m.parent; up != nil && m.depth != w.nodes[up.peer.ID].machine.depth+1 {
			w.fail("%s believes in depth %d below one of depth %d", name, m.depth, w.nodes[up.peer.ID].machine.depth)
		}
		if len(m.children) > w.fanout {
			w.fail("%s has %d children and room for %d", name, len(m.children), w.fanout)
		}
		for _, e := range m.requests {
			id := e.id
			w.fail("request %s,c%d is left at %s", id.Node.ID, id.Clock, name)
		}
		for _, r := range m.resources {
			switch {
			case m.role == protocol.Root && r.tok.phase != home:
				w.fail("the token of %s is lost: at the root %s its phase is %d", r.q.resource, name, r.tok.phase)
			case m.role != protocol.Root && r.tok.phase != away && r.tok.phase != below:
				w.fail("%s thinks that the token of %s is in phase %d", name, r.q.resource, r.tok.phase)
			case r.q.total() != 0:
				w.fail("%s still reports %d waiting for %s", name, r.q.total(), r.q.resource)
			}
		}
		if m.any.total() != 0 {
			w.fail("%s still reports %d waiting for any", name, m.any.total())
		}
	}
}
