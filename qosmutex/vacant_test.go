package qosmutex

import (
	"context"
	"math"
	"testing"
	"time"

	"padme/pubsub"
)

// As TestServerThatListenedRespectsARootThatDied, but the server had the topic before, and
// let go of it: what the record in its own memory says of that time is not so any more.
func TestAServerThatLetGoRespectsARootThatDied(t *testing.T) {
	timing := WithTiming(LAN().WithTTL(10 * time.Second))
	for _, wait := range []time.Duration{0, time.Second} {
		virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
			ctx := context.Background()
			p, q, r := join("node"), join("root"), join("member")
			defer p.Close(ctx)
			defer r.Close(ctx)
			s, end := listening(t, p, time.Minute, clock, timing, WithNodePriority(math.MinInt64+1)) // as serve
			defer end()
			h, err := topicOf(t, s, "crane").Lock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			_ = h.Unlock()
			if err := s.Remove(ctx, "crane"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			root, err := Open(ctx, q, "crane", Create(), WithOpenResources(), clock, timing)
			if err != nil {
				t.Fatal(err)
			}
			member, err := Open(ctx, r, "crane", clock)
			if err != nil {
				t.Fatal(err)
			}
			defer member.Close(ctx)
			before, err := member.Lock(ctx, "hook")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if before.Check() != nil {
				t.Fatal("member lost it early")
			}
			_ = q.Close(ctx) // as a crash, for the topic
			_ = root.Close(ctx)
			died := time.Now()
			time.Sleep(wait)
			soon, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			after, err := topicOf(t, s, "crane").Lock(soon, "hook")
			if err != nil && before.Check() == nil { // the member moved to the new root with its hold
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("wait %v: had %v after the root died; remaining of the hold before: %v (%v)", wait, time.Since(died), before.Remaining(), before.Check())
			if before.Check() == nil || after.Fence() <= before.Fence() {
				t.Errorf("fence %d beside %d, which is valid", after.Fence(), before.Fence())
			}
			_ = after.Unlock()
		})
	}
}
