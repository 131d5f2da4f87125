package reliable

import (
	"testing"

	"padme/pubsub/internal/wire"
)

// What was sent again comes on another goroutine than the rest, and what had to wait,
// for that or for room, is delivered by whoever ends the wait.
func TestAFilterOfLateSamplesMayCallItsReader(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true}, Policies{Reliable: true, KeepAll: true, MaxSamples: 1})
	n.match()
	n.heal()
	asked := 0
	n.r.out.Filter = func([]byte) (bool, error) {
		asked++
		n.r.Matches() // takes the mutex
		return true, nil
	}
	for range 3 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan int)
	go func() {
		got := 0
		n.step(1, "deliver")
		for n.heal(); n.r.TakeNext() != nil; n.heal() { // each makes room for the next
			got++
		}
		done <- got
	}()
	if got := <-done; got != 3 || asked < 3 {
		t.Errorf("%d samples, the filter was asked %d times", got, asked)
	}
}
