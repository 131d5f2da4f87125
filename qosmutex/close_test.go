package qosmutex

import (
	"context"
	"testing"
	"time"

	"padme/pubsub"
)

// TestCloseSaysGoodbyeWithoutAnAnswer: a holder whose parent dies, and that closes before
// it has noticed, gives up after a second. The others wait for the session of the dead
// parent, but not for that of the holder, which would end later.
func TestCloseSaysGoodbyeWithoutAnAnswer(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		member := func(id string, priority int64, opts ...Option) (*Topic, *pubsub.Participant) {
			p := join(id)
			topic, err := Open(ctx, p, "t", append(opts, WithNodePriority(priority), WithFanout(1), clock)...)
			if err != nil {
				t.Fatal(err)
			}
			return topic, p
		}
		root, p := member("root", 0, Create(), WithResources("crane"))
		defer p.Close(ctx)
		defer root.Close(ctx)
		parent, o := member("parent", 1)
		defer o.Close(ctx)
		defer parent.Close(ctx)
		leaver, q := member("leaver", 2)
		defer q.Close(ctx)
		if _, err := leaver.Lock(ctx, "crane"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		dead := func(is bool) { // it takes no steps, and the broker has noticed nothing
			parent.mu.Lock()
			parent.ended = is
			parent.mu.Unlock()
		}
		dead(true)
		defer dead(false)
		start := time.Now()
		if err := leaver.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != departWait {
			t.Errorf("Close took %v, want the %v that it waits", took, departWait)
		}
		h, err := root.Lock(ctx, "crane")
		if err != nil {
			t.Fatal(err)
		}
		if took, most := time.Since(start), LAN().Grace(); took > most {
			t.Errorf("the next one entered %v after the parent's death, want at most %v", took, most)
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
}
