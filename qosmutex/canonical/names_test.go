package canonical

import (
	"slices"
	"testing"
)

// TestNames: of each sort the order stays, and the distances up to the slack; 0 is
// 0; and what another sort, or another link, has counted does not matter. Of nonces only
// matters which are the same.
func TestNames(t *testing.T) {
	n := &Names{}
	n.Slack[SortClock], n.Slack[SortGrant], n.Slack[SortLink] = 3, 1, 3
	values := []uint64{100, 7, 8, 0, 102, 7, 5}
	for range 2 { // the second time over another world, with the memory of the first
		for _, c := range []struct {
			note func(v uint64)
			want []byte
		}{
			{func(v uint64) { n.Note(SortClock, v) }, []byte{9, 5, 6, 0, 11, 5, 3}},
			{func(v uint64) { n.Note(SortGrant, v) }, []byte{4, 2, 3, 0, 5, 2, 1}},
			{func(v uint64) { n.Note(SortNonce, v) }, []byte{1, 2, 3, 0, 5, 2, 6}},
			{func(v uint64) { n.NoteIn(SortLink, v%2, v) }, []byte{6, 5, 3, 0, 8, 5, 3}},
		} {
			n.Reset()
			n.Note(SortFence, 1)
			for _, v := range values {
				c.note(v)
			}
			if got := n.AppendNames(nil); !slices.Equal(got[1:], c.want) {
				t.Errorf("named %v, want %v", got[1:], c.want)
			}
		}
	}
}
