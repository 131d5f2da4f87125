package padme

import (
	"testing"
)

// A member whose Lamport clock is far ahead, as no correct one's is, cannot keep others from
// being served: neither where nobody knows a clock yet, nor by a jump that its parent takes
// and the root, which knows less, does not.
func TestPoisonedClock(t *testing.T) {
	for _, poisoned := range []struct {
		name   string
		models string
		first  []string // before
		clock  func(w *world) uint64
	}{
		{"beyond the end", "level-forward-forward-forward", nil, func(*world) uint64 { return ^uint64(0) }},
		{"as far as is believed", "level-forward-forward-forward", nil, func(*world) uint64 { return maxClock - 1 }},
		{"as far as is believed, fair", "fair-replace-use-use", nil, func(*world) uint64 { return maxClock - 1 }},
		{"as far as is believed by the parent", "fair-replace-forward-forward", []string{"request A", "request B", "request B"}, func(w *world) uint64 {
			return w.nodes["B"].machine.clock + maxClockJump - 1
		}},
		{"half of that", "fair-replace-forward-forward", []string{"request A"}, func(*world) uint64 { return maxClock / 2 }},
	} {
		t.Run(poisoned.name, func(t *testing.T) {
			w := newWorld()
			play(t, w, "tree A(B(D E) C) models="+poisoned.models)
			play(t, w, poisoned.first...)
			d := w.nodes["D"].machine
			d.clock = poisoned.clock(w)
			play(t, w, "request D", "advance 1s")
			for range poisoned.first {
				for _, n := range []string{"A", "B", "B", "D"} {
					if len(w.nodes[n].inside) > 0 {
						play(t, w, "leave "+n, "advance 1s")
					}
				}
			}
			if len(w.nodes["D"].inside) > 0 {
				play(t, w, "leave D", "advance 1s")
			}
			for range 3 { // the second time of each comes after the poison has reached it
				for _, n := range []string{"C", "A", "E", "B"} {
					play(t, w, "request "+n, "advance 1s")
					if len(w.nodes[n].inside) == 0 {
						t.Fatalf("%s is not served", n)
					}
					play(t, w, "leave "+n, "advance 1s")
				}
			}
			for name, n := range w.nodes {
				if c := n.machine.clock; name != "D" && c > maxClockJump<<8 {
					t.Errorf("the clock of %s is %d", name, c)
				}
			}
			play(t, w, "advance 10s") // sessions live on
			for name, n := range w.nodes {
				if n.machine.counters.Expiries > 0 && name != "D" {
					t.Errorf("%s has lost sessions", name)
				}
			}
		})
	}
}

// Nor does it drive the names of requests that a gateway makes for clients, of which no more could
// be made.
func TestPoisonedTurn(t *testing.T) {
	for _, models := range []string{"fair-forward-forward-forward", "level-replace-forward-forward"} {
		w := newWorld()
		play(t, w, "tree A(B C) models="+models, "request A")
		w.nodes["C"].machine.clock = maxClock - 2
		play(t, w, "request C")
		for range 3 {
			play(t, w, "request A client=a", "request B client=b")
		}
		for name, n := range w.nodes {
			if last := n.machine.lastName; name != "C" && last > maxClockJump<<8 {
				t.Errorf("%s: the names of %s have come to %d", models, name, last)
			}
		}
		play(t, w, "serve 5s", "rest")
	}
}
