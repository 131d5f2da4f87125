package padme

import (
	"cmp"
	"slices"

	"padme/qosmutex/protocol"
)

// beacon is the newest sign of life of the root.
type beacon struct {
	number  uint64
	members uint32
	fresh   protocol.Time // when it arrived
	next    protocol.Time // when the next tick is due
}

// rank orders participants by importance: (P,I) of the papers.
func rank(p int64, n protocol.Node, q int64, o protocol.Node) int {
	if c := cmp.Compare(p, q); c != 0 {
		return c
	}
	return n.Compare(o)
}

func tie(n protocol.Node) uint64 { return protocol.EpochOf(0, n).Tie }

// lineage is our ancestors and ourselves, root first.
func (m *Machine) lineage() []protocol.Node {
	return append(slices.Clone(m.ancestors), m.self)
}
