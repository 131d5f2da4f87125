package padme

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// bound is how many later requests may overtake one under Aging while at most so many
// higher priorities wait.
func bound(higher int) int {
	n := 0
	for q := min(higher, protocol.AgingLevels-1); q > 0; q-- {
		n += 1 << (10 - q)
	}
	return n
}

func TestAgingBound(t *testing.T) {
	if got := bound(protocol.AgingLevels - 1); got != protocol.AgingBound {
		t.Errorf("the levels add up to %d, not to %d", got, protocol.AgingBound)
	}
}

// flood lets all but the victim and the root ask for ever, each again before it
// leaves, while the victim waits with priority p. It returns, for each queue on the
// way from the root to the victim that had a say, how many requests that were made
// after the victim's went through it and entered while the victim's waited there, and
// whether that one entered in the end.
func flood(c *crowd, victim int, p int64, priority func(i int) int64, patience int) (overtaken map[*Machine]int, entered bool) {
	overtaken = map[*Machine]int{}
	ask := func(i int) {
		if i != victim && i != 0 {
			c.ask(i, priority(i))
		}
	}
	for i := range c.machines {
		ask(i) // the token is out when the victim comes
	}
	c.deliver()
	ref := c.ask(victim, p)
	id := c.machines[victim].ownByRef(ref).id
	for round := range patience {
		c.deliver()
		if len(c.inside) != 1 {
			c.t.Fatalf("%d are inside", len(c.inside))
		}
		h := c.inside[0]
		if h.grant.Ref == ref {
			return overtaken, true
		}
		if h.grant.Ref > ref {
			for m := c.machines[h.at]; ; m = c.machines[c.index[m.parent.peer.ID]] {
				if e := m.requests.get(id); e != nil && (m.parent == nil || !e.sent) {
					overtaken[m]++
				}
				if m.parent == nil {
					break
				}
			}
		}
		ask(h.at)
		c.deliver()
		c.leave()
		for i := 0; round%50 == 0 && i < len(c.machines); i++ {
			if err := c.machines[i].CheckInvariants(); err != nil {
				c.t.Fatalf("%d: %v", i, err)
			}
		}
	}
	return overtaken, false
}

// TestAgingEndsStarvation floods a star with requests of several priorities, whatever
// their numbers, all higher than the victim's. Under Aging they overtake it as often as
// its rank says; under Level it starves.
func TestAgingEndsStarvation(t *testing.T) {
	const most = 3 * protocol.AgingBound
	for higher := 1; higher <= protocol.AgingLevels+2; higher++ {
		priority := func(i int) int64 { return 90 + 10*int64(i-2) }
		for _, request := range []string{"forward", "replace"} {
			star := func(priority string) *crowd {
				models, err := protocol.ParseModels(priority + "-" + request + "-forward-forward")
				if err != nil {
					t.Fatal(err)
				}
				return newCrowd(t, 2+higher, 2+higher, models)
			}
			t.Run(fmt.Sprintf("aging-%s-forward-forward/%d", request, higher), func(t *testing.T) {
				c := star("aging")
				n, entered := flood(c, 1, 1000, priority, most)
				if got := n[c.machines[0]]; !entered || got > bound(higher) || got < bound(higher)-higher {
					t.Errorf("entered: %v, after %d overtook it; the bound is %d, and up to %d waited before", entered, got, bound(higher), higher)
				}
			})
			t.Run(fmt.Sprintf("level-%s/%d", request, higher), func(t *testing.T) {
				c := star("level")
				if n, entered := flood(c, 1, 1000, priority, most); entered {
					t.Errorf("entered under Level, after %d overtook it", n[c.machines[0]])
				}
			})
		}
	}
}

// TestAgingBoundInTrees checks the bound for each queue on the way to the root,
// whatever the tree, the victim's place and the priorities of the others. At the root
// the victim must enter.
func TestAgingBoundInTrees(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		models := protocol.Models{Priority: protocol.Aging, Request: protocol.RequestModel(rapid.IntRange(0, 1).Draw(r, "request"))}
		n := rapid.IntRange(3, 7).Draw(r, "nodes")
		c := newCrowd(t, n, rapid.IntRange(1, 3).Draw(r, "fanout"), models)
		victim := rapid.IntRange(1, n-1).Draw(r, "victim")
		p := rapid.Int64Range(-50, 1000).Draw(r, "priority")
		kinds := rapid.Int64Range(1, 12).Draw(r, "priorities")
		seed := rapid.Uint64().Draw(r, "seed")
		overtaken, entered := flood(c, victim, p, func(int) int64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return p + int64(seed>>33)%kinds - kinds + 1
		}, protocol.AgingBound+3*n)
		if !entered && models.Request == protocol.RequestForward {
			r.Fatalf("starves: %v overtook it", overtaken)
		}
		for m, by := range overtaken {
			if by > protocol.AgingBound {
				r.Fatalf("%d overtook it in the queue of %v; at most %d may", by, m.self, protocol.AgingBound)
			}
		}
	})
}

// TestAgingPrefers: what the default priority of 100 competes with need not be below 8.
func TestAgingPrefers(t *testing.T) {
	models, _ := protocol.ParseModels("aging-forward-forward-forward")
	c := newCrowd(t, 4, 4, models)
	c.ask(0, 100)
	c.deliver()
	for i, p := range []int64{100, 10, -5} {
		c.ask(1+i, p)
		c.deliver()
	}
	var order []int64
	for range 4 {
		order = append(order, c.inside[0].grant.Priority)
		c.leave()
		c.deliver()
	}
	if want := []int64{100, -5, 10, 100}; !slices.Equal(order, want) {
		t.Errorf("entered in the order %v, want %v", order, want)
	}
}

// TestAgingCountsWhatIsServed: a request that is sent again with another priority, or
// over another attachment, is not overtaken by that, nor by what only comes.
func TestAgingCountsWhatIsServed(t *testing.T) {
	for _, request := range []string{"forward", "replace"} {
		w := newWorld()
		lines := []string{"tree A(B(D) C E) models=aging-" + request + "-forward-forward fanout=3", "request E", "request C p7", "request D", "request A p7", "request A p9"}
		for range 5 {
			lines = append(lines, "priority D 2", "priority D 1", "cut B", "heal B", "tick 100ms", "settle")
		}
		c := func() *entry {
			waiting := w.nodes["A"].machine.find("x").q.waiting
			return waiting[slices.IndexFunc(waiting, func(e *entry) bool { return e.id.Node.ID == "C" })]
		}
		play(t, w, lines...)
		if got := c().patience; got != protocol.AgingBound {
			t.Errorf("%s: the patience of C's request is %d before anybody overtook it", request, got)
		}
		play(t, w, "leave E")
		if got := c().patience; got != protocol.AgingBound-1 {
			t.Errorf("%s: the patience of C's request is %d after D overtook it", request, got)
		}
	}
}

func TestAgingLevels(t *testing.T) {
	two, nine := scale{10, 100}, scale{1, 2, 3, 4, 5, 6, 7, 8, 900}
	for _, c := range []struct {
		scale     scale
		priority  int64
		overtaken uint32
		rank      uint8 // before
		level     uint8
	}{
		{two, 10, 0, 0, 1},
		{two, 10, 1015, 0, 1},
		{two, 10, 1016, 0, 0},
		{two, 100, 0, 0, 2},
		{two, 100, 511, 0, 2},
		{two, 100, 512, 0, 1},
		{two, 100, 255, 2, 2},
		{two, 100, 256, 2, 1},
		{two, 100, 8, 7, 1},
		{two, 10, 8, 7, 1}, // more waited before
		{nine, 1, 0, 0, 1},
		{nine, 2, 0, 0, 1},
		{nine, 3, 0, 0, 2}, // two of nine share a level
		{nine, 900, 0, 0, 8},
		{nine, 900, 7, 0, 8},
		{nine, 900, 8, 0, 7},
		{nine, 900, 24, 1, 6},
		{nine, 900, 1015, 7, 2},
		{nine, 900, 1016, 7, 0},
	} {
		if got := c.scale.level(&entry{priority: c.priority, patience: protocol.AgingBound - c.overtaken, rank: c.rank}); got != c.level {
			t.Errorf("priority %d among %v, overtaken by %d: level %d, want %d", c.priority, c.scale, c.overtaken, got, c.level)
		}
	}
}
