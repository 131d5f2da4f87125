//go:build linux

package hostile

import (
	"io"
	"testing"
	"time"

	"padme/tests/extent"
)

// queued is how many messages a client lets wait: one for each packet id of MQTT.
const queued = 65_535

// mostForQueue is what they may cost the node, in bytes of resident memory: six times the two quotas of
// a user that they fill, one for its absent sessions and one for its connections, since the garbage
// collector lets the heap grow to its double and gives memory back late.
const mostForQueue = 6 * 2 * 64 << 20

// A member lets as many messages wait as there are packet ids: for a session to which it does not come
// back, and for a connection that acknowledges nothing.
func TestAsManyMessagesAsPacketIDs(t *testing.T) {
	extent.Long(t, "65,535 messages twice")
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	base := n.memory(t, "VmRSS")
	const topic = r + "data/p/t/k/mallory/w"
	for _, attack := range []struct {
		name string
		come func(c *raw) // the session that is subscribed
	}{
		{"an absent session", func(c *raw) { c.part(t) }},
		{"a reader that acknowledges nothing", func(c *raw) { go func() { _, _ = io.Copy(io.Discard, c.in) }() }},
	} {
		t.Run(attack.name, func(t *testing.T) {
			reader, _, code := n.keep(t, "mallory", attack.name, 0)
			if code != 0 {
				t.Fatalf("CONNACK %d", code)
			}
			reader.subscribe(t, 4, topic)
			attack.come(reader)
			limits := n.sum(t, limited, `"max-user-queue"`) + n.sum(t, limited, `"max-queue"`)
			h.during(t, func() {
				c := n.as(t, "mallory")
				defer c.Close()
				answers := make(chan error, 1)
				go func() {
					for acknowledged := 0; acknowledged < queued; {
						_ = c.SetReadDeadline(time.Now().Add(patience))
						first, _, err := c.next()
						if err != nil {
							answers <- err
							return
						}
						if first == 0x40 {
							acknowledged++
						}
					}
					answers <- nil
				}()
				for i := range queued {
					c.send(t, packet(0x32, str(topic), []byte{byte((i + 1) >> 8), byte(i + 1)}, []byte("x")))
				}
				if err := <-answers; err != nil {
					t.Errorf("not all are acknowledged: %v", err)
				}
			})
			reached := n.sum(t, limited, `"max-user-queue"`) + n.sum(t, limited, `"max-queue"`) - limits
			t.Logf("%v messages wait, limits were reached %v times; resident %d MB more, %d at most so far", n.sum(t, "padme_broker_unacknowledged_messages"), reached,
				(n.memory(t, "VmRSS")-base)>>20, (n.memory(t, "VmHWM")-base)>>20)
			_ = reader.Close()
		})
	}
	if cost := n.memory(t, "VmHWM") - base; cost > mostForQueue {
		t.Errorf("messages that wait have cost %d MB", cost>>20)
	}
}
