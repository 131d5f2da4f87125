package connection

import (
	"math"
	"testing"
)

// A packet that is being written is on its way, as one is that the broker has not acknowledged.
func TestPassed(t *testing.T) {
	var f flight
	is := func(want uint64, when string) {
		t.Helper()
		if got := f.passed(); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	is(math.MaxUint64, "nothing was taken")
	f.took(&Packet{place: 5})
	is(4, "5 is being written")
	f.wrote()
	is(5, "5 is written, and wants no acknowledgement")
	f.took(&Packet{place: 6})
	a := &ack{done: make(chan struct{})}
	f.add(receipt{token: a}, Packet{place: 6})
	f.wrote()
	is(5, "6 is not acknowledged")
	f.took(&Packet{place: 7})
	is(5, "7 is being written")
	a.end(nil)
	is(6, "6 is acknowledged")
	f.wrote()
	is(7, "7 is written")
}
