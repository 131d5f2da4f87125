package protocol

import (
	"cmp"
	"strconv"
	"strings"
)

// Time is an instant on one participant's own clock, in nanoseconds since an
// arbitrary zero. Instants of different participants are not comparable.
type Time int64

// Duration is a span of Time, in nanoseconds.
type Duration = Time

// Spans of Time.
const (
	Microsecond Duration = 1_000
	Millisecond          = 1_000 * Microsecond
	Second               = 1_000 * Millisecond
)

// Never is the wake-up time of a machine that waits for nothing.
const Never Time = 1<<63 - 1

// Node names one run of one participant. A restarted process is a new
// incarnation of the same ID and inherits nothing that its predecessor promised
// or held. The zero Node names no participant.
type Node struct {
	ID          string
	Incarnation uint64
}

// IsZero reports whether n names no participant.
func (n Node) IsZero() bool { return n.ID == "" }

// Compare orders nodes by ID, then by incarnation.
func (n Node) Compare(o Node) int {
	if c := strings.Compare(n.ID, o.ID); c != 0 {
		return c
	}
	return cmp.Compare(n.Incarnation, o.Incarnation)
}

// Tie is a hash of the name (FNV-1a), which makes epochs of different roots differ.
func (n Node) Tie() uint64 {
	h := uint64(14695981039346656037)
	for i := range len(n.ID) {
		h = (h ^ uint64(n.ID[i])) * 1099511628211
	}
	for i := range 8 {
		h = (h ^ n.Incarnation>>(8*i)&0xff) * 1099511628211
	}
	return h
}

func (n Node) String() string { return n.ID }

// Epoch names the term of one root over a lock topic. Tie is derived from the
// root, so that two roots never share an epoch, not even those of two registers.
//
// With a term begins a new account: nothing that was granted in one before and is
// still on its way is good any more. A hold goes on.
type Epoch struct {
	Number uint64 // the term
	Tie    uint64
}

// EpochOf returns the epoch of a root in a term.
func EpochOf(term uint64, root Node) Epoch { return Epoch{Number: term, Tie: root.Tie()} }

// Compare orders epochs by Number, then by Tie.
func (e Epoch) Compare(o Epoch) int {
	if c := cmp.Compare(e.Number, o.Number); c != 0 {
		return c
	}
	return cmp.Compare(e.Tie, o.Tie)
}

func (e Epoch) String() string {
	return strconv.FormatUint(e.Number, 10) + "." + strconv.FormatUint(e.Tie, 36)
}

// RequestID is the ⟨I,C⟩ of the papers: a request is named by its origin and the
// origin's clock when it was made, never by the origin alone.
type RequestID struct {
	Node  Node
	Clock uint64
}

// Compare orders requests by their origin, then by its clock.
func (r RequestID) Compare(o RequestID) int {
	return cmp.Or(r.Node.Compare(o.Node), cmp.Compare(r.Clock, o.Clock))
}

// IsZero reports whether r names no request.
func (r RequestID) IsZero() bool { return r.Node.IsZero() }

// Grant names one trip of a token: the Number-th grant of an epoch. The zero
// Grant is older than any other.
type Grant struct {
	Epoch  Epoch
	Number uint64
}

// Compare orders grants by age: epoch first, then number.
func (g Grant) Compare(o Grant) int {
	if c := g.Epoch.Compare(o.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(g.Number, o.Number)
}

// Fences is a half-open range [Next, End) of fence numbers that a grant may
// still hand out, one for each entry. It is empty when Next == End.
type Fences struct {
	Next, End uint64
}

// Any asks for the first free one of a topic's declared resources.
const Any = "*"
