package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// tree is where a participant is among the others, and its links to its neighbors.
type tree struct {
	under     string          // static tree: the only parent that will do; else empty
	fanout    int             // children that we take
	depth     uint32          // links to the root; more than 255 count as that
	ancestors []protocol.Node // root first, parent last
	parent    *link
	children  []*link // by node
	linkGen   uint64
	join      *join // nil: we look for nobody
	beacon    beacon
	outranks  protocol.Time // since when we (or, at the root, a child) outrank our parent (the root); 0: not
	departBy  protocol.Time // departing: give up waiting for confirmation
}

// beacon is the newest sign of life of the root.
type beacon struct {
	number  uint64
	members uint32
	fresh   protocol.Time // when it arrived
	next    protocol.Time // when the next tick is due
}

func (t *tree) clone() tree {
	c := *t
	c.ancestors = slices.Clone(t.ancestors)
	c.parent, c.children = t.parent.clone(), each(t.children, (*link).clone)
	if t.join != nil {
		j := *t.join
		j.lost = j.lost.clone()
		c.join = &j
	}
	return c
}

// wakeAt is when the tree has something to do.
func (t *tree) wakeAt(c *core) protocol.Time {
	at := t.beacon.next
	if c.role == protocol.Member {
		at = min(at, t.beaconTimeout(c))
	}
	if t.join != nil {
		at = min(at, t.join.until)
	}
	if c.departing {
		at = min(at, t.departBy)
	}
	return at
}

func (t *tree) write(w *canonical.Writer, c *core) {
	w.Uint(uint64(t.depth), t.linkGen)
	w.Nodes(t.ancestors)
	w.Left(t.beacon.next)
	w.Names.NoteIn(canonical.SortBeacon, c.epoch.Number, t.beacon.number)
	w.Uint(uint64(t.beacon.members))
	if c.role == protocol.Member {
		w.Age(t.beacon.fresh, t.beaconTimeout(c)-t.beacon.fresh)
	}
	if w.Is(t.outranks != 0) {
		w.Age(t.outranks, c.timing.MoveAfter)
	}
	if c.departing {
		w.Left(t.departBy)
	}
	if w.Is(t.join != nil) {
		t.join.write(w, c.self)
	}
	if w.Is(t.parent != nil) {
		t.parent.write(w, c)
	}
	w.Uint(uint64(len(t.children)))
	for _, l := range t.children {
		l.write(w, c)
		w.Age(l.heard, max(c.grace(), 2*c.heartbeat()+1)) // the parent's silence is noticed by the beacon
	}
}

// linkOf finds the link that a message belongs to.
func (t *tree) linkOf(msg *protocol.Message) *link {
	if p := t.parent; p != nil && msg.From == p.peer && msg.Link == p.gen {
		return p
	}
	if l := t.child(msg.From); l != nil && l.gen == msg.Link {
		return l
	}
	return nil
}

// child returns the link to a child, or nil.
func (t *tree) child(n protocol.Node) *link {
	i, ok := slices.BinarySearchFunc(t.children, n, func(l *link, n protocol.Node) int { return l.peer.Compare(n) })
	if !ok {
		return nil
	}
	return t.children[i]
}

// slots is how many more children we take.
func (t *tree) slots() int {
	n := t.fanout
	for _, l := range t.children {
		if !l.leaving {
			n--
		}
	}
	return n
}

func (t *tree) leastChild() *link {
	var least *link
	for _, l := range t.children {
		if !l.leaving && (least == nil || rank(l.priority, l.peer, least.priority, least.peer) > 0) {
			least = l
		}
	}
	return least
}

// beaconTimeout is when a member gives its parent up: a fresh beacon of the root
// should have come through it. The deeper, the later, so that a subtree follows
// the one above that re-attaches instead of falling apart.
func (t *tree) beaconTimeout(c *core) protocol.Time {
	return t.beacon.fresh + c.grace() + protocol.Time(t.depth)*c.heartbeat()
}

// rank orders participants by importance: (P,I) of the papers.
func rank(p int64, n protocol.Node, q int64, o protocol.Node) int {
	if c := cmp.Compare(p, q); c != 0 {
		return c
	}
	return n.Compare(o)
}

// lineage is our ancestors and ourselves, root first.
func (m *Machine) lineage() []protocol.Node {
	return append(slices.Clone(m.ancestors), m.self)
}
