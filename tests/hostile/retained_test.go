//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/tests/extent"
)

// mostForRetained is what one member's retained messages may cost the node, in bytes of
// resident memory: 64 MB, which the garbage collector lets grow to their double, and
// what the packets take on their way.
const mostForRetained = 256 << 20

// A member has the broker retain what is large in all but its payload.
func TestRetainedMessagesCountAsTheyCost(t *testing.T) {
	extent.Long(t, "64 MB four times")
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	base := n.memory(t, "VmRSS")
	for _, attack := range []struct {
		name, metric, label string
		times               int
		topic               func(i int) string
		properties          []byte
	}{
		{"1 MB of empty user properties", limited, `"max-properties"`, 60, func(i int) string { return fmt.Sprintf("%sdata/p/t/k%d/mallory/w", r, i) }, bytes.Repeat(user("", ""), 200_000)},
		{"1 MB in a few user properties", refused, `"retain"`, 200, func(i int) string { return fmt.Sprintf("%sdata/p/t/long%d/mallory/w", r, i) }, bytes.Repeat(user("", strings.Repeat("x", 60_000)), 16)},
		{"30,000 levels", limited, `"max-topic-levels"`, 60, func(i int) string {
			return fmt.Sprintf("%slock/crane/client/mallory/w%d%s", r, i, strings.Repeat("/x", 30_000))
		}, nil},
	} {
		t.Run(attack.name, func(t *testing.T) {
			h.during(t, func() {
				var c *raw
				for i := range attack.times {
					if c == nil {
						c = n.as5(t, "mallory")
					}
					if _, err := c.Write(packet(0x31, str(attack.topic(i)), properties(attack.properties), []byte("x"))); err != nil {
						c = nil // it was thrown out
					}
				}
			})
			grown := func() bool { return n.sum(t, attack.metric, attack.label) > 0 } // what was written may wait for its user's turn
			for end := time.Now().Add(patience); !grown(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s{%s} has not grown", attack.metric, attack.label)
				}
			}
			t.Logf("resident %d MB more, %d MB at most so far", (n.memory(t, "VmRSS")-base)>>20, (n.memory(t, "VmHWM")-base)>>20)
		})
	}
	if cost := n.memory(t, "VmHWM") - base; cost > mostForRetained {
		t.Errorf("retained messages have cost %d MB", cost>>20)
	}
}
