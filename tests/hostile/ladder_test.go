//go:build linux

package hostile

import (
	"testing"
	"time"

	"padme/qosmutex/protocol"
	"padme/tests/extent"
)

// A member that looks for a root says that it knows a term almost an hour ahead, and then
// one an hour ahead of that, and so on. It is believed as far as the clock of the machine
// that it says it comes from may be wrong, and no step further.
func TestLadderOfTerms(t *testing.T) {
	extent.Long(t, "two restarts")
	t.Parallel()
	const steps, hour = 2, uint64(time.Hour / time.Microsecond)
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	mallory := n.as(t, "mallory")
	base, step := uint64(time.Now().UnixMicro()), uint64(1)
	h.during(t, func() {
		for begun := time.Now(); step <= steps; step = uint64(time.Since(begun)/(7*time.Second)) + 1 { // no sooner is another one believed
			m := protocol.Message{Kind: protocol.KindJoin, From: protocol.Node{ID: "mallory", Incarnation: 1}, Epoch: protocol.Epoch{Number: base + step*hour*999/1000}}
			for _, topic := range []string{"crane", "fresh"} {
				mallory.publish(t, r+"lock/"+topic+"/join/mallory", protocol.AppendMessage(nil, &m), false)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	h.mu.Lock()
	fences := map[string]uint64{"crane": h.fence}
	h.mu.Unlock()
	fences["fresh"] = once(t, h.alice, "fresh", false)
	for topic, fence := range fences {
		if most := uint64(time.Now().UnixMicro()) + hour + ahead; fence > most {
			t.Errorf("%s: fence %d is %.1f hours ahead", topic, fence, float64(fence-most)/float64(hour)+1)
		}
	}
}
