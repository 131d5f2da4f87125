package qosmutex

import (
	"context"
	"testing"
	"time"

	"padme/qosmutex/protocol"
)

// A loss that is noticed late, as on a busy machine, is told with the time at which the hold was over, so
// that a log shows no overlap with the next holder.
func TestALossHasTheTimeOfItsEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		m := w.open("a", Create(), WithResources("x"))
		defer m.close()
		p, _ := w.join("screen")
		defer p.Close(context.Background())
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		events := make(chan Event, 10)
		w.killed.Go(func() {
			for e, err := range WatchEvents(ctx, p, "t") {
				if err == nil && e.Event == EventLost {
					events <- e
				}
			}
		})
		h, err := m.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		over := time.Now()
		m.mu.Lock()
		h.until.Store(int64(m.clock()))
		m.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		m.mu.Lock()
		m.lost(&protocol.Loss{Ref: h.ref})
		m.mu.Unlock()
		select {
		case e := <-events:
			if d := e.At.Sub(over).Abs(); d > time.Millisecond {
				t.Errorf("the loss is told %v after the hold was over", d)
			}
		case <-ctx.Done():
			t.Error("no event")
		}
		cancel()
	})
}
