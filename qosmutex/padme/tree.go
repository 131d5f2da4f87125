package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// tree is where a participant is among the others, and where it would rather be.
type tree struct {
	under     string          // static tree: the only parent that will do; else empty
	depth     uint32          // links to the root; more than 255 count as that
	ancestors []protocol.Node // root first, parent last
	join      *join           // nil: we look for nobody
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
	if t.join != nil {
		j := *t.join
		j.lost = j.lost.clone()
		c.join = &j
	}
	return c
}

func (t *tree) write(w *canonical.Writer, c *core) {
	w.Uint(uint64(t.depth))
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
}

// beaconTimeout is when a member gives its parent up: a fresh beacon of the root
// should have come through it. The deeper, the later, so that a subtree follows
// the one above that re-attaches instead of falling apart.
func (t *tree) beaconTimeout(c *core) protocol.Time {
	return t.beacon.fresh + c.grace() + protocol.Time(t.depth)*c.heartbeat()
}

// comparePlace orders participants by importance, the more important first: (P,I) of the papers.
func comparePlace(p int64, n protocol.Node, q int64, o protocol.Node) int {
	if c := cmp.Compare(p, q); c != 0 {
		return c
	}
	return n.Compare(o)
}

// lineage is our ancestors and ourselves, root first.
func (m *Machine) lineage() []protocol.Node {
	return append(append(make([]protocol.Node, 0, len(m.ancestors)+1), m.ancestors...), m.self)
}
