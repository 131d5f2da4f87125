package static_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

func TestCompleteTrees(t *testing.T) {
	for fanout, want := range map[int][]int{0: {-1, 0, 0, 1, 1, 2, 2}, 1: {-1, 0, 1, 2, 3, 4, 5}, 3: {-1, 0, 0, 0, 1, 1, 1}} {
		tree, err := static.TreeOf(&protocol.Config{Members: make([]string, 7), Fanout: fanout})
		if err != nil || !slices.Equal(tree.Parent, want) {
			t.Errorf("fan-out %d: %v %v, want %v", fanout, tree, err, want)
		}
	}
}

func TestWhatIsNoTree(t *testing.T) {
	for name, parents := range map[string][]int{
		"two roots": {-1, -1, 0}, "no root": {1, 2, 0}, "a circle beside": {-1, 2, 1}, "outside": {-1, 0, 3},
		"below": {-1, 0, -2}, "too few": {-1, 0}, "itself": {-1, 1, 0},
	} {
		if _, err := static.TreeOf(&protocol.Config{Members: []string{"a", "b", "c"}, Parents: parents}); !errors.Is(err, protocol.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Next leads to its destination in as many steps as Distance says.
func TestWaysThroughTheTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		parents := make([]int, n)
		parents[0] = -1
		for i := 1; i < n; i++ {
			parents[i] = rapid.IntRange(0, i-1).Draw(t, "parent")
		}
		tree, err := static.TreeOf(&protocol.Config{Members: make([]string, n), Parents: parents})
		if err != nil {
			t.Fatal(err)
		}
		a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b")
		steps := 0
		for at := a; at != b; steps++ {
			next := tree.Next(at, b)
			if parents[next] != at && parents[at] != next {
				t.Fatalf("%d and %d are no neighbors in %v", at, next, parents)
			}
			if at = next; steps > n {
				t.Fatalf("the way from %d to %d does not end in %v", a, b, parents)
			}
		}
		if d := tree.Distance(a, b); d != steps || d != tree.Distance(b, a) {
			t.Fatalf("distance %d, %d steps", d, steps)
		}
	})
}
