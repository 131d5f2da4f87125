package static

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// Tree is the static tree of the participants, by their indices in
// Config.Members.
type Tree struct {
	Parent []int // -1 at the root
	Depth  []int
}

// TreeOf reads the tree of a configuration: Parents, or a complete tree of Fanout
// (0: 2) in the order of Members. The error wraps [protocol.ErrInvalidConfig].
func TreeOf(cfg *protocol.Config) (*Tree, error) {
	n := len(cfg.Members)
	t := &Tree{Parent: cfg.Parents, Depth: make([]int, n)}
	if t.Parent == nil {
		fanout := cfg.Fanout
		if fanout == 0 {
			fanout = 2
		}
		t.Parent = make([]int, n)
		for i := range t.Parent {
			t.Parent[i] = (i-1+fanout)/fanout - 1
		}
	}
	if len(t.Parent) != n {
		return nil, fmt.Errorf("%w: %d Parents for %d Members", protocol.ErrInvalidConfig, len(t.Parent), n)
	}
	roots := 0
	for i, p := range t.Parent {
		if p < -1 || p >= n {
			return nil, fmt.Errorf("%w: the parent of %q is number %d of %d", protocol.ErrInvalidConfig, cfg.Members[i], p, n)
		}
		if p == -1 {
			roots++
		}
		for a := p; a != -1 && t.Depth[i] <= n; a = t.Parent[a] {
			if a < 0 || a >= n {
				break // said when its turn comes
			}
			t.Depth[i]++
		}
		if t.Depth[i] > n {
			return nil, fmt.Errorf("%w: the ancestors of %q go round in a circle", protocol.ErrInvalidConfig, cfg.Members[i])
		}
	}
	if roots != 1 {
		return nil, fmt.Errorf("%w: a tree has one root, Parents has %d", protocol.ErrInvalidConfig, roots)
	}
	return t, nil
}

// Root is the index of the root.
func (t *Tree) Root() int {
	for i, p := range t.Parent {
		if p == -1 {
			return i
		}
	}
	return -1
}

// Distance is the number of links between two participants.
func (t *Tree) Distance(a, b int) int {
	d := 0
	for ; a != b; d++ {
		if t.Depth[a] < t.Depth[b] {
			a, b = b, a
		}
		a = t.Parent[a]
	}
	return d
}

// Next is the neighbor of a on the way to b, who is another one.
func (t *Tree) Next(a, b int) int {
	for t.Depth[b] > t.Depth[a]+1 {
		b = t.Parent[b]
	}
	if t.Depth[b] == t.Depth[a]+1 && t.Parent[b] == a {
		return b
	}
	return t.Parent[a]
}
