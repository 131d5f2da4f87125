package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// A sample may overtake the word that its writer is alive again, and that word
// may never come: the instance must not live for ever.
func TestASampleRevivesItsWriterForALease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true})
		n.match()
		deliver := func() {
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
		}
		deliver()
		w := n.r.writers["w/w1"]
		w.lease, w.alive = time.Second, false
		for range 2 {
			drain(n.r.events)
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
			deliver()
			if got := told[LivelinessChanged](n.r.events); len(got) != 1 || !got[0].Alive {
				t.Errorf("with the sample: %v", got)
			}
			time.Sleep(time.Second)
			if next := n.r.Tick(time.Now()); !next.IsZero() {
				t.Errorf("next tick in %v", time.Until(next))
			}
			if got := told[LivelinessChanged](n.r.events); len(got) != 1 || got[0].Alive {
				t.Errorf("a lease later: %v", got)
			}
			if h := waiting(n.r); len(h) == 0 || h[0].InstanceState != cache.NoWriters {
				t.Errorf("a lease later there are %+v", h)
			}
		}
	})
}
