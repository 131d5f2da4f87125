// Package canonical writes the states of machines in a form that is equal for two
// states exactly if what follows from them is: for model checkers, which visit each
// state once. A machine writes its own fields with a [Writer].
package canonical

import (
	"encoding/binary"
	"slices"
)

// Sort says which numbers of a world are of one sort: they are compared with each
// other and count up, so only their order and their small distances matter.
type Sort uint8

// Sorts of numbers.
const (
	SortClock    Sort = iota // Lamport clocks
	SortFence                // fences
	SortGrant                // numbers of grants
	SortBeacon               // numbers of beacons in one term
	SortLink                 // message numbers on one direction of one link
	SortArrival              // of requests at one participant
	SortVersion              // counters of the versions of the topic's record
	SortSettings             // versions of a topic's settings
	SortTerm                 // terms of package lease; those of an epoch are written as they are
	SortNonce                // of those versions: they are only compared for equality, and need no Slack
	sortEnd
)

// Names gives the numbers in the states of all machines of a world, and of the
// messages between them, canonical names, so that two worlds that differ only in
// how far they have counted look the same. Of each sort the order is kept, and
// the distance between neighbors up to its Slack.
//
// After Reset, Writers over the whole world leave the numbers out and note them;
// AppendNames then writes the names of all, in the order in which they were noted. What
// stands before says how many there are of each sort and where, so together they name
// the world. A Names is not safe for concurrent use.
type Names struct {
	// Slack is by how much a number of each sort may still be counted up past
	// another one without that being visible in a state; at least 1. A smaller one
	// makes different worlds look the same.
	Slack [sortEnd]uint64

	noted []noted
	of    [sortEnd][]numbers
}

// noted is one number that was left out.
type noted struct {
	sort  Sort
	group uint16
	value uint64
}

// numbers are those of one sort; of SortLink, those of one direction of a link, and of
// SortBeacon, those of one term.
type numbers struct {
	key           uint64
	values, names []uint64
}

// Reset begins another world.
func (n *Names) Reset() {
	n.noted = n.noted[:0]
	for s := range n.of {
		n.of[s] = n.of[s][:0]
	}
}

// Note leaves a number out of a state. 0 is always named 0.
func (n *Names) Note(s Sort, value uint64) { n.NoteIn(s, 0, value) }

// NoteIn is Note for a number that is compared only with those of the same key.
func (n *Names) NoteIn(s Sort, key, value uint64) {
	i := n.group(s, key)
	n.noted = append(n.noted, noted{s, uint16(i), value})
	g := &n.of[s][i]
	if !slices.Contains(g.values, value) { // there are a few
		g.values = append(g.values, value)
	}
}

// AppendNames writes the names of all numbers that were noted since Reset.
func (n *Names) AppendNames(dst []byte) []byte {
	for s := range n.of {
		if Sort(s) == SortNonce {
			continue
		}
		for i := range n.of[s] {
			n.of[s][i].settle(n.Slack[s])
		}
	}
	for _, o := range n.noted {
		g := &n.of[o.sort][o.group]
		name := uint64(0)
		switch {
		case o.sort != SortNonce:
			i, _ := slices.BinarySearch(g.values, o.value)
			name = g.names[i]
		case o.value != 0: // drawn at random: the first that was noted is 1
			name = uint64(slices.Index(g.values, o.value) + 1)
		}
		dst = binary.AppendUvarint(dst, name)
	}
	return dst
}

func (g *numbers) settle(slack uint64) {
	slices.Sort(g.values)
	g.names = g.names[:0]
	var last, name uint64
	for _, v := range g.values {
		name += min(v-last, slack)
		last = v
		g.names = append(g.names, name)
	}
}

func (n *Names) group(s Sort, key uint64) int {
	for i := range n.of[s] {
		if n.of[s][i].key == key {
			return i
		}
	}
	if len(n.of[s]) < cap(n.of[s]) { // with the memory of before
		n.of[s] = n.of[s][:len(n.of[s])+1]
	} else {
		n.of[s] = append(n.of[s], numbers{})
	}
	i := len(n.of[s]) - 1
	g := &n.of[s][i]
	g.key, g.values = key, g.values[:0]
	return i
}
