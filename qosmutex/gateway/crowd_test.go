package gateway

import (
	"slices"
	"testing"
	"time"

	"padme/qosmutex/jsonlock"
)

// A broker cuts off who does not read as fast as a crowd of clients writes. So requests do
// not come over the connection of lock messages, and are read again if theirs is lost.
func TestRequestsComeOverAConnectionOfTheirOwn(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.gateway("gw")
		defer g.stop()
		c := s.client("esp32", "crane")
		defer c.close()
		c.ask(jsonlock.Acquire, "1", `"lease_ms":600000`, jsonlock.Granted)
		var got []int64
		for _, w := range g.cable.wires {
			got = append(got, w.requests.Load())
		}
		if got[0] != 0 || slices.Max(got) == 0 {
			t.Errorf("requests by connection: %v, want none on the first one", got)
		}
		for i, n := range got {
			if n > 0 {
				g.cable.Lose(i)
			}
		}
		time.Sleep(time.Second)
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		if !g.p.Connected() {
			t.Error("the connection of lock messages was lost with it")
		}
	})
}
