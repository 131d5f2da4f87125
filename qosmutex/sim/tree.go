package sim

import (
	"slices"
	"strconv"
)

// Tree returns the participants of a complete tree of n, in breadth-first order
// and named A, B, C … (above 26, n1, n2 …). The priority of each is its depth, so
// that the root is the most important, and the Root. When adaptive
// is set nobody is given a parent, and the tree forms itself.
func Tree(n, fanout int, adaptive bool) []Participant {
	all := make([]Participant, n)
	for i := range all {
		p := &all[i]
		p.ID = treeName(i, n)
		if i == 0 {
			p.Root = true
			continue
		}
		parent := &all[(i-1)/fanout]
		p.Priority = parent.Priority + 1
		if !adaptive {
			p.Parent = parent.ID
		}
	}
	return all
}

func treeName(i, n int) string {
	if n <= 26 {
		return string(rune('A' + i))
	}
	return "n" + strconv.Itoa(i+1)
}

// tree returns what protocol.Config says of the tree: the members, the index of
// each one's parent, nil if nobody names one; and its height. Without parents the
// height is that of the complete tree of Fanout (0: 2).
func (s *Scenario) tree() (members []string, parents []int, height int) {
	members = make([]string, len(s.Participants))
	place := make(map[string]int, len(members))
	for i := range members {
		members[i] = s.Participants[i].ID
		place[members[i]] = i
	}
	fanout := s.Fanout
	if fanout <= 0 {
		fanout = 2
	}
	named := slices.ContainsFunc(s.Participants, func(p Participant) bool { return p.Parent != "" })
	above := make([]int, len(members))
	for i := range above {
		switch p := s.Participants[i].Parent; {
		case p != "":
			above[i] = place[p]
		case named || i == 0:
			above[i] = -1
		default:
			above[i] = (i - 1) / fanout
		}
	}
	if named {
		parents = above
	}
	for i := range above {
		height = max(height, depth(above, i))
	}
	return members, parents, height
}

// depth is how many parents are above participant i; more than there are
// participants if they form a circle.
func depth(parents []int, i int) int {
	d := 0
	for ; parents[i] >= 0 && d <= len(parents); i = parents[i] {
		d++
	}
	return d
}

// mix draws a seed of its own for each value of n (the finalizer of SplitMix64).
func mix(seed, n uint64) uint64 {
	x := seed + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
