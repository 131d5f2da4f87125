//go:build linux

package hostile

import (
	"bytes"
	"testing"

	"padme/tests/extent"
)

// An observer subscribes to everything at QoS 1, over all its connections, and reads nothing
// of what a member writes. The node would give each ten minutes; no publisher waits for them.
func TestObserversThatDoNotRead(t *testing.T) {
	n := startNode(t, "--write-timeout", "10m")
	h := startHonest(t, n)
	h.goOn(t)
	h.during(t, func() {
		for range 20 {
			n.as(t, "watch").send(t, packet(0x82, []byte{0, 1}, str("#"), []byte{1}))
		}
		mallory := n.as(t, "mallory")
		load := bytes.Repeat([]byte("x"), 100_000)
		for range 150 { // more than the kernel buffers
			mallory.send(t, packet(0x30, str(r+"data/p/t/k/mallory/w"), load))
		}
		for range 10 {
			t.Logf("a retained publication took %v", n.retain(t))
		}
	})
}

// mostForUnread is what a client's unread messages may cost the node, in bytes of resident
// memory: what may wait, a copy for each connection that is being written to, and garbage.
const mostForUnread = 1 << 30

// A client sends itself long messages over all its connections, most of which read nothing of
// them. The node would give each ten minutes.
func TestAClientThatReadsNothingOfItsOwn(t *testing.T) {
	extent.Long(t, "64 MB")
	n := startNode(t, "--write-timeout", "10m")
	h := startHonest(t, n)
	h.goOn(t)
	base := n.memory(t, "VmRSS")
	const topic = r + "lock/gate/client/eve/answer"
	for range 90 {
		eve := n.as(t, "eve")
		eve.send(t, packet(0x82, []byte{0, 1}, str(topic), []byte{0}))
		if first, _, err := eve.next(); err != nil || first != 0x90 {
			t.Fatalf("no SUBACK: %#x %v", first, err)
		}
	}
	eve := n.as(t, "eve")
	load := bytes.Repeat([]byte("x"), 900_000)
	const sent = 100
	n.grows(t, 1, limited, `"max-user-queue"`, func() {
		h.during(t, func() {
			for range sent {
				eve.send(t, packet(0x30, str(topic), load))
			}
			eve.send(t, []byte{0xc0, 0}) // answered when all of that was handed on
			if first, _, err := eve.next(); err != nil || first != 0xd0 {
				t.Fatalf("no PINGRESP: %#x %v", first, err)
			}
		})
	})
	cost := n.memory(t, "VmHWM") - base
	t.Logf("%d MB were to be sent; resident %d MB more at most", 90*sent*len(load)/1e6, cost>>20)
	if cost > mostForUnread {
		t.Errorf("what a client does not read has cost %d MB", cost>>20)
	}
	h.goOn(t)
}
