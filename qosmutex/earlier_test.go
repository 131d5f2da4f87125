package qosmutex

import (
	"context"
	"testing"
	"time"

	"padme/qosmutex/register/local"
)

// A root had a long TTL, and a member of it that has no connection still holds. The register is
// lost, and a new one has a short TTL: whoever is the root by it, in whichever order they come and
// go, lets nobody in beside that hold.
func TestEveryRootWaitsForAnEarlierTTL(t *testing.T) {
	for _, how := range []string{"stays", "leaves", "dies"} {
		t.Run(how, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				ctx := context.Background()
				w.shared = local.Memory()
				old := w.open("old", Create(), WithOpenResources(), WithTiming(LAN().WithTTL(20*time.Second)))
				p, cable := w.join("member")
				topic, err := Open(ctx, p, "t", w.clock)
				if err != nil {
					t.Fatal(err)
				}
				holder := &member{topic, p, cable, &w.killed}
				before, err := holder.Lock(ctx, "hook")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				holder.cable.Cut()
				old.kill()
				time.Sleep(10 * time.Millisecond) // the broker knows

				w.shared = local.Memory()
				short := WithTiming(LAN().WithTTL(time.Second))
				first := w.open("first", Create(), WithOpenResources(), short)
				next := w.open("next", Create(), WithOpenResources(), short)
				defer next.close()
				time.Sleep(500 * time.Millisecond)
				switch begun := time.Now(); how {
				case "leaves":
					if first.close(); time.Since(begun) > 500*time.Millisecond {
						t.Errorf("it leaves in %v", time.Since(begun))
					}
				case "dies":
					first.kill()
				default:
					defer first.close()
				}
				after, err := next.Lock(ctx, "hook")
				if err != nil {
					t.Fatal(err)
				}
				if before.Check() == nil {
					t.Errorf("fence %d beside %d, which is valid for %v more", after.Fence(), before.Fence(), before.Remaining())
				}
				_ = after.Unlock()
				holder.kill()
			})
		})
	}
}
