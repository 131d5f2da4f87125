package classic

import "math"

// votingSet is the voting set of participant i of n in the lecture's matrix: its row
// and its column, itself included, in ascending order.
//
// The matrix has ⌈√n⌉ columns and is filled row by row, so only the last row may be
// short. Any two sets intersect all the same: of i in row r and column p, and j in
// row s and column q, with r no later than s, the place (r,q) is in i's row and j's
// column, and it is filled, because row r is full if it is not the last, and if it is,
// then r = s and j itself is there. The relation is symmetric: who is in my set has me
// in its own.
func votingSet(n, i int) []int {
	columns := int(math.Sqrt(float64(n)))
	if columns*columns < n {
		columns++
	}
	var set []int
	for j := range n {
		if j/columns == i/columns || j%columns == i%columns {
			set = append(set, j)
		}
	}
	return set
}
