package padme

import (
	"slices"
	"testing"

	"padme/qosmutex/protocol"
)

// TestClocksFarApartKeepTheirOrder: the distance of two clocks does not fit an int, of 32
// bits or of 64.
func TestClocksFarApartKeepTheirOrder(t *testing.T) {
	m := &Machine{}
	clocks := []uint64{1, 2, 1 << 31, 1<<31 + 2, 1<<32 + 1, 1<<33 + 1, 1<<63 + 5}
	for _, c := range []int{4, 0, 6, 2, 5, 1, 3} {
		m.requests.add(&entry{id: protocol.RequestID{Node: protocol.Node{ID: "A", Incarnation: 1}, Clock: clocks[c]}})
	}
	var got []uint64
	for _, e := range m.requests {
		got = append(got, e.id.Clock)
	}
	if !slices.Equal(got, clocks) {
		t.Errorf("in the order %d, want %d", got, clocks)
	}
}
