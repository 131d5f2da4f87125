package qosmutex

import (
	"context"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
)

// A server that was a member of a lock whose root has died knows that there was a root, however
// long it had listened before: it lets nobody in beside a hold of another member.
func TestServerRemembersTheRootThatItHad(t *testing.T) {
	for offset := time.Duration(0); offset < LAN().Heartbeat; offset += 5 * time.Millisecond {
		inVirtualTime(t, func(t *testing.T, w *world) {
			ctx := context.Background()
			root, err := pubsub.Join(ctx, "", "root", pubsub.WithDialer(w.b.Dial), pubsub.WithUserData(map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}))
			if err != nil {
				t.Fatal(err)
			}
			p, _ := w.join("gw")
			defer p.Close(ctx)
			s, end := listening(t, p, 2*LAN().Grace(), w.clock)
			defer end()
			opened := make(chan *Topic)
			go func() { opened <- topicOf(t, s, "crane") }()
			time.Sleep(100 * time.Millisecond) // it looks for a root when this one begins
			lock, err := Open(ctx, root, "crane", Create(), WithOpenResources(), w.clock)
			if err != nil {
				t.Fatal(err)
			}
			first := <-opened
			time.Sleep(offset) // the heartbeats of the member come so much later than those of the server
			q, cable := w.join("member")
			member, err := Open(ctx, q, "crane", w.clock)
			if err != nil {
				t.Fatal(err)
			}
			before, err := member.Lock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10*time.Second + 7*offset)
			_ = root.Close(ctx) // as a crash, for the topic
			cable.Cut()
			for topicOf(t, s, "crane") == first {
				time.Sleep(10 * time.Millisecond)
			}
			after, err := topicOf(t, s, "crane").Lock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			if before.Check() == nil || after.Fence() <= before.Fence() {
				t.Errorf("%v later: fence %d beside %d, which is valid for %v", offset, after.Fence(), before.Fence(), before.Remaining())
			}
			w.killed.Go(func() { _ = lock.Close(ctx); _ = member.Close(ctx); _ = q.Close(ctx) })
		})
	}
}
