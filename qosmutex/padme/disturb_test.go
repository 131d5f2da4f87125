package padme

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// hold keeps back what goes along one link of the tree, in one direction.
func (p *player) hold(m move) {
	n := p.pick(m.a, func(n *node) bool { return n.machine.parent != nil })
	if n == nil || p.kind >= faulty && p.termEnds() {
		return
	}
	from, to := n.name, n.machine.parent.peer.ID
	if m.b%2 == 0 {
		from, to = to, from
	}
	if !p.holding() {
		p.heldSince = p.now
	}
	p.line("hold %s %s", from, to)
}

// disturb plays a move which changes who takes part, or breaks something.
func (p *player) disturb(m move) {
	switch m.what {
	case "hold":
		p.hold(m)
	case "resume":
		for _, name := range p.order {
			if k := [2]string{p.order[m.a%len(p.order)], name}; p.held[k] {
				p.line("resume %s %s", k[0], k[1])
				return
			}
		}
	case "join":
		if !p.static {
			p.join(1 + m.b%5)
		}
	case "depart":
		n := p.pick(m.a, func(n *node) bool {
			return !n.paused && !n.machine.departing && (n.machine.role != protocol.Root || p.mayHandOver(n))
		})
		if n != nil && (p.root() != nil || p.kind == wild) && !p.static {
			p.line("depart %s", n.name)
		}
	case "cut":
		if n := p.pick(m.a, func(n *node) bool { return !n.offline && !p.termEnds() }); n != nil {
			p.line("cut %s", n.name)
		}
	case "heal":
		if n := p.pick(m.a, func(n *node) bool { return n.offline }); n != nil {
			p.line("heal %s", n.name)
		}
	case "pause":
		if n := p.pick(m.a, func(n *node) bool { return !n.paused && !p.termEnds() }); n != nil {
			p.line("pause %s", n.name)
		}
	case "unpause":
		if n := p.pick(m.a, func(n *node) bool { return n.paused }); n != nil {
			p.line("unpause %s", n.name)
		}
	case "crash":
		n := p.pick(m.a, func(n *node) bool { return n.machine.role != protocol.Root || p.kind == wild })
		if n != nil && !p.termEnds() {
			p.line("crash %s", n.name)
		}
	case "restart":
		for i := range p.order {
			if n := p.nodes[p.order[(i+m.a)%len(p.order)]]; n.crashed {
				p.line("restart %s", n.name)
				return
			}
		}
	}
}

// mayHandOver reports whether the root can leave in good order: its successor
// is alive and stays.
func (p *player) mayHandOver(root *node) bool {
	if p.kind == wild {
		return true
	}
	for _, n := range p.nodes {
		if n.machine.role != protocol.Departed && (n.machine.departing || n.crashed || n.offline || n.paused) {
			return false
		}
	}
	for _, l := range root.machine.children {
		if n := p.nodes[l.peer.ID].machine; n.self != l.peer || n.role == protocol.Departed {
			return false // it is gone, and the root does not know
		}
	}
	return len(root.machine.children) > 0 && (p.kind < faulty || len(p.pending) == 0 && !p.holding())
}

// keepsRank reports whether n may take priority prio and the root remains the
// most important of all.
func (p *player) keepsRank(n *node, prio int64) bool {
	root := p.root()
	return root != nil && n != root && prio > root.machine.priority
}

// termEnds reports whether the root is about to change: the successor must not
// be lost now. The algorithm assumes that the root lives.
func (p *player) termEnds() bool {
	root := p.root()
	return p.kind != wild && (root == nil || root.machine.departing)
}

func (p *player) wish(b int) string {
	names := append(p.names(), protocol.Any)
	s := " " + names[b%len(names)]
	switch b / 4 % 6 {
	case 0:
		s += " try"
	case 1:
		s += fmt.Sprintf(" p%d", b%6)
	case 2:
		s += fmt.Sprintf(" within=%dms hold=%dms", 100*(1+b%7), 50*(b%3))
	case 3:
		s += " hold=50ms"
	}
	return s
}

// clientOf is on whose behalf a participant asks in these runs; every other one asks for
// itself.
func clientOf(name string) string {
	if name[0]%2 == 0 {
		return ""
	}
	return "client-of-" + name
}

func (p *player) onBehalf(name string) string {
	if client := clientOf(name); client != "" {
		return " client=" + client
	}
	return ""
}

// checkClients checks that whoever knows a request knows on whose behalf it was made, and
// that the root tells the same of a holder.
func (p *player) checkClients(n *node) {
	for _, e := range n.machine.requests {
		if want := clientOf(e.id.Node.ID); e.client != want {
			p.fail("%s knows %v,c%d as of client %q, not %q", n.name, e.id.Node, e.id.Clock, e.client, want)
		}
	}
	for _, r := range n.machine.resources {
		if h := n.machine.holderOf(r); h != nil && h.client != clientOf(h.entry.ID.Node.ID) {
			p.fail("%s knows %v inside %s for client %q", n.name, h.entry.ID.Node, r.q.resource, h.client)
		}
	}
}

func (p *player) leaveOne(n *node) {
	for _, r := range p.names() {
		if _, ok := n.inside[r]; ok {
			p.line("leave %s %s", n.name, r)
			return
		}
	}
}
