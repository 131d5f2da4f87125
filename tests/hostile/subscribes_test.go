//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"padme/tests/poll"
)

// mostForSubscribes is what an observer's subscriptions may cost the node, in bytes of
// resident memory.
const mostForSubscribes = 256 << 20

// An observer subscribes to all that is retained, as often as fits into a packet, and
// reads nothing. Others retain on and lock on.
func TestOneSubscribeWithAllTheFilters(t *testing.T) {
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	mallory := n.as(t, "mallory")
	load := bytes.Repeat([]byte("x"), 10_000)
	const kept = 1000
	for i := range kept {
		mallory.publish(t, fmt.Sprintf("%sdata/p/t/k%d/mallory/w", r, i), load, true)
	}
	poll.Within(t, patience, "the retained messages", func() bool { return n.sum(t, "padme_broker_retained_messages") >= kept })
	base := n.memory(t, "VmRSS")
	for _, attack := range []struct {
		name    string
		filters func() []byte
	}{
		{"50,000 times the same filter", func() []byte { return bytes.Repeat(append(str("#"), 0), 50_000) }},
		{"all filters that match the same", func() (all []byte) {
			for i := range 1 << 9 { // all ways to write nine levels
				filter := ""
				for level, name := range []string{"padme", "v1", "default", "data", "p", "t", "+", "mallory", "w"} {
					if i>>level&1 == 1 {
						name = "+"
					}
					filter += "/" + name
				}
				all = append(append(all, str(filter[1:])...), 0)
			}
			return all
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			filters, took := attack.filters(), time.Duration(0)
			h.during(t, func() {
				for range 2 {
					c := n.as5(t, "watch")
					c.send(t, packet(0x82, []byte{0, 1}, properties(), filters))
					_ = c.SetReadDeadline(time.Now().Add(patience))
					if first, body, err := c.next(); err != nil || first != 0xe0 || body[0] != 0x97 {
						t.Errorf("an answer of %#x, %v, want a DISCONNECT with reason 0x97", first, err)
					}
				}
				took = n.retain(t)
			})
			t.Logf("a retained publication took %v; resident %d MB more, %d MB at most so far", took,
				(n.memory(t, "VmRSS")-base)>>20, (n.memory(t, "VmHWM")-base)>>20)
		})
	}
	// As many as a packet may have, in many packets, of many connections that read nothing.
	t.Run("the same in many packets", func(t *testing.T) {
		h.during(t, func() {
			for range 10 {
				c := n.as5(t, "watch")
				for range 20 {
					var filters []byte
					for i := range 1 << 7 {
						filter := "padme/v1"
						for level, name := range []string{"default", "data", "p", "t", "+", "mallory", "w"} {
							if i>>level&1 == 1 {
								name = "+"
							}
							filter += "/" + name
						}
						filters = append(append(filters, str(filter)...), 0)
					}
					_ = c.SetWriteDeadline(time.Now().Add(time.Second))
					if _, err := c.Write(packet(0x82, []byte{0, 1}, properties(), filters)); err != nil {
						break // it waits for this client to read
					}
				}
			}
			n.retain(t)
		})
		t.Logf("resident %d MB more, %d MB at most so far", (n.memory(t, "VmRSS")-base)>>20, (n.memory(t, "VmHWM")-base)>>20)
	})
	// 50,000 filters are refused by their bytes, before they are counted.
	if n.sum(t, limited, `"max-packet"`) < 2 || n.sum(t, limited, `"max-filters"`) < 2 || !n.Out.Has("max-filters user=watch") {
		t.Error("nobody was told of the filters: " + n.Printed())
	}
	if cost := n.memory(t, "VmHWM") - base; cost > mostForSubscribes {
		t.Errorf("subscriptions have cost %d MB", cost>>20)
	}
}

// retain has mallory retain a message, and returns how long that took.
func (n *node) retain(t *testing.T) time.Duration {
	t.Helper()
	c := n.as(t, "mallory")
	begin := time.Now()
	c.send(t, packet(0x33, str(r+"presence/mallory"), []byte{0, 1}, []byte("here"))) // retained, QoS 1
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if first, _, err := c.next(); err != nil || first != 0x40 {
		t.Fatalf("nobody could retain a message for %v: %#x %v", time.Since(begin), first, err)
	}
	return time.Since(begin)
}
