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

// tie makes epochs of different roots differ (FNV-1a over the root's name).
func tie(n protocol.Node) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(n.ID) {
		h = (h ^ uint64(n.ID[i])) * 1099511628211
	}
	for i := range 8 {
		h = (h ^ n.Incarnation>>(8*i)&0xff) * 1099511628211
	}
	return h
}

// lineage is our ancestors and ourselves, root first.
func (m *Machine) lineage() []protocol.Node {
	return append(slices.Clone(m.ancestors), m.self)
}
