//go:build linux

package hostile

import (
	"bytes"
	"testing"
)

// An observer subscribes to everything at QoS 1, over all its connections, and reads nothing
// of what a member writes. The node would give each ten minutes; no publisher waits for them.
func TestObserversThatDoNotRead(t *testing.T) {
	n := startNode(t, "--write-timeout", "10m")
	h := startHonest(t, n)
	h.goOn(t)
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
	h.goOn(t)
}
