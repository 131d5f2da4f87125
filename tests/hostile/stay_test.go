//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"testing"

	"padme/tests/extent"
)

// Sessions of a client that outlive their connections subscribe, at QoS 1, to what the client
// has retained, 18 MB, and read nothing of it; others take them over at once. The node would
// give each connection ten minutes.
func TestSessionsThatStayAndReadNothing(t *testing.T) {
	extent.Long(t, "a queue that fills up")
	n := startNode(t, "--write-timeout", "10m")
	h := startHonest(t, n)
	h.goOn(t)
	const own = r + "lock/gate/client/eve/"
	eve, load := n.as(t, "eve"), bytes.Repeat([]byte("x"), 900_000)
	for i := range 20 {
		eve.publish(t, fmt.Sprint(own, "r/", i), load, true)
	}
	eve.send(t, []byte{0xc0, 0}) // answered when all is retained
	if first, _, err := eve.next(); err != nil || first != 0xd0 {
		t.Fatalf("no PINGRESP: %#x %v", first, err)
	}
	h.during(t, func() {
		for range 3 {
			for i := range 7 {
				c, _, code := n.keep(t, "eve", fmt.Sprint("eve-", i), 0)
				if code != 0 {
					t.Fatalf("CONNACK %d", code)
				}
				c.subscribe(t, 4, own+"#")
			}
			t.Logf("a retained publication took %v", n.retain(t))
			if err := n.join(t, "spy").Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	h.goOn(t)
}
