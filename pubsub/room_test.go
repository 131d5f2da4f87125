package pubsub

import (
	"errors"
	"testing"
)

// Who waits for room in the outgoing queue is not passed by who writes now: of much, there would
// never be enough.
func TestNobodyPassesThoseWhoWaitForRoom(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		p, _ := d.joinBy("p")
		w := writerOf(t, topicOf[pose](t, p, "t"), QoS{Reliability: Reliable})
		loose := writerOf(t, topicOf[pose](t, p, "t"), QoS{Reliability: BestEffort})
		turn := p.exchange.samples.Turn()
		turn.Wait(1) // and is called
		if err := loose.Write(t.Context(), pose{}); !errors.Is(err, ErrBacklog) {
			t.Errorf("a best-effort write: %v", err)
		}
		if err := w.TryWrite(pose{}); !errors.Is(err, ErrBacklog) || !errors.Is(err, ErrTimeout) {
			t.Errorf("a write that does not wait: %v", err)
		}
		if err := w.Write(t.Context(), pose{}); err != nil { // there is room for both
			t.Errorf("a write that waits: %v", err)
		}
		turn.Leave()
		if err := loose.Write(t.Context(), pose{}); err != nil {
			t.Errorf("nobody waits any more: %v", err)
		}
	})
}
