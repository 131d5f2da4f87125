package classic

import (
	"fmt"
	"slices"
	"testing"
)

func TestVotingSetsOfTheLecture(t *testing.T) {
	want := [][]int{{0, 1, 2}, {0, 1, 3}, {0, 2, 3}, {1, 2, 3}}
	for i, set := range want {
		if got := votingSet(4, i); !slices.Equal(got, set) {
			t.Errorf("the set of %d of 4 is %v, want %v", i, got, set)
		}
	}
}

func TestVotingSetsIntersect(t *testing.T) {
	for n := 1; n <= 60; n++ {
		sets := make([][]int, n)
		for i := range sets {
			sets[i] = votingSet(n, i)
			if !slices.Contains(sets[i], i) || !slices.IsSorted(sets[i]) {
				t.Errorf("N=%d: the set of %d is %v", n, i, sets[i])
			}
		}
		side := 1
		for side*side < n {
			side++
		}
		for i, set := range sets {
			if len(set) > 2*side-1 || n == side*side && len(set) != 2*side-1 {
				t.Errorf("N=%d: the set of %d has %d members, want 2√N-1", n, i, len(set))
			}
			for j, other := range sets {
				if !slices.ContainsFunc(set, func(v int) bool { return slices.Contains(other, v) }) {
					t.Errorf("N=%d: the sets of %d and %d do not intersect", n, i, j)
				}
				if slices.Contains(set, j) != slices.Contains(other, i) {
					t.Errorf("N=%d: %d and %d disagree on who votes for whom", n, i, j)
				}
			}
		}
	}
}

func Example_votingSet() {
	for i := range 7 {
		fmt.Println(i, votingSet(7, i))
	}
	// Output:
	// 0 [0 1 2 3 6]
	// 1 [0 1 2 4]
	// 2 [0 1 2 5]
	// 3 [0 3 4 5 6]
	// 4 [1 3 4 5]
	// 5 [2 3 4 5]
	// 6 [0 3 6]
}
