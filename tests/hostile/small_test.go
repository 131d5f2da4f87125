//go:build linux

package hostile

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"padme/tests/extent"
)

// An observer sends the shortest packets as fast as they are taken, over all its connections.
// Each costs the node more than its sender. Others lock on.
func TestSmallPackets(t *testing.T) {
	extent.Long(t, "five floods, one after the other")
	for _, attack := range []struct {
		name    string
		packets []byte
	}{
		{"nothing", nil},
		{"pings", bytes.Repeat([]byte{0xc0, 0}, 2000)},
		{"publications that are refused", bytes.Repeat(packet(0x30, str("a")), 500)},
		{"subscriptions", bytes.Repeat(packet(0x82, []byte{0, 1}, str("#"), []byte{0}), 100)},
	} {
		t.Run(attack.name, func(t *testing.T) {
			n := startNode(t) // of its own: an account waits for what it has sent before
			h := startHonest(t, n)
			h.goOn(t)
			var sending sync.WaitGroup
			conns := make([]*raw, 20)
			for i := range conns {
				conns[i] = n.as(t, "watch")
			}
			end := time.Now().Add(extent.Of(2*time.Second, 6*time.Second))
			for _, c := range conns {
				sending.Go(func() { _, _ = io.Copy(io.Discard, c) })
				sending.Go(func() {
					defer c.Close()
					for _ = c.SetWriteDeadline(end.Add(time.Second)); time.Now().Before(end) && len(attack.packets) > 0; {
						if _, err := c.Write(attack.packets); err != nil {
							return
						}
					}
				})
			}
			longest, entries, changed := time.Duration(0), h.entries.Load(), time.Now()
			for time.Now().Before(end) {
				if now := h.entries.Load(); now != entries {
					entries, changed = now, time.Now()
				}
				longest = max(longest, time.Since(changed))
				time.Sleep(time.Millisecond)
			}
			sending.Wait()
			h.goOn(t)
			t.Logf("the longest time without an entry: %v", longest)
		})
	}
}
