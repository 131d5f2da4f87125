package padme

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// bound is how many later requests may overtake one of priority p in a queue.
func bound(p int64) int {
	n := 0
	for q := p - 1; q >= 0; q-- {
		n += 1 << (9 - q)
	}
	return n
}

func TestAgingBound(t *testing.T) {
	if got := bound(protocol.AgingLevels - 1); got != protocol.AgingBound {
		t.Errorf("the levels add up to %d, not to %d", got, protocol.AgingBound)
	}
}

// flood lets all but the victim and the root ask for ever, each anew before it
// leaves, while the victim waits with priority p. It returns, for each queue on the
// way from the root to the victim, how many requests that were made after the
// victim's went through it and entered while the victim's waited there, and whether
// that one entered in the end.
func flood(c *crowd, victim int, p int64, priority func() int64, patience int) (overtaken map[*Machine]int, entered bool) {
	overtaken = map[*Machine]int{}
	ask := func(i int) {
		if i != victim && i != 0 {
			c.ask(i, priority())
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
		if by := h.grant.ID; by.Clock > id.Clock || by.Clock == id.Clock && by.Node.Compare(id.Node) > 0 {
			for m := c.machines[h.at]; ; m = c.machines[c.index[m.parent.peer.ID]] {
				if m.requests.get(id) != nil {
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

// TestAgingEndsStarvation floods a star with requests that are more important than
// the victim's. Under Aging they overtake it as often as the levels say; under
// Level it starves.
func TestAgingEndsStarvation(t *testing.T) {
	const flooders = 4
	for p := int64(1); p < protocol.AgingLevels; p++ {
		for _, request := range []string{"forward", "replace"} {
			name := fmt.Sprintf("aging-%s-forward-forward", request)
			t.Run(fmt.Sprintf("%s/%d", name, p), func(t *testing.T) {
				models, _ := protocol.ParseModels(name)
				c := newCrowd(t, 2+flooders, 2+flooders, models)
				n, entered := flood(c, 1, p, func() int64 { return 0 }, 3*protocol.AgingBound)
				if !entered || n[c.machines[0]] > bound(p)+flooders || n[c.machines[0]] < bound(p)-flooders {
					t.Errorf("entered: %v, after %d overtook it; the bound is %d, and up to %d waited before", entered, n[c.machines[0]], bound(p), flooders)
				}
			})
			t.Run(fmt.Sprintf("level-%s/%d", request, p), func(t *testing.T) {
				models, _ := protocol.ParseModels(fmt.Sprintf("level-%s-forward-forward", request))
				c := newCrowd(t, 2+flooders, 2+flooders, models)
				if n, entered := flood(c, 1, p, func() int64 { return 0 }, 3*protocol.AgingBound); entered {
					t.Errorf("entered under Level, after %d overtook it", n[c.machines[0]])
				}
			})
		}
	}
}

// TestAgingBoundInTrees checks the bound for each queue on the way to the root,
// whatever the tree, the victim's place and the priorities of the others. Under
// Forward the root's queue alone decides, and the victim must enter.
func TestAgingBoundInTrees(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		models := protocol.Models{Priority: protocol.Aging, Request: protocol.RequestModel(rapid.IntRange(0, 1).Draw(r, "request"))}
		n := rapid.IntRange(3, 7).Draw(r, "nodes")
		c := newCrowd(t, n, rapid.IntRange(1, 3).Draw(r, "fanout"), models)
		victim := rapid.IntRange(1, n-1).Draw(r, "victim")
		p := rapid.Int64Range(1, 9).Draw(r, "priority")
		least := rapid.Int64Range(0, p).Draw(r, "least")
		seed := rapid.Uint64().Draw(r, "seed")
		most := bound(min(p, protocol.AgingLevels-1)) + n
		overtaken, entered := flood(c, victim, p, func() int64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int64(seed>>33) % (least + 1)
		}, most+2*n)
		if !entered && models.Request == protocol.RequestForward {
			r.Fatalf("starves: %v overtook it", overtaken)
		}
		for m, by := range overtaken {
			if by > most {
				r.Fatalf("%d overtook it in the queue of %v; at most %d may", by, m.self, most)
			}
		}
	})
}

// TestAgingCountsEachRequestOnce: a request that is sent again with another
// priority, or over another attachment, has been counted; one of the same level
// does not count.
func TestAgingCountsEachRequestOnce(t *testing.T) {
	for _, request := range []string{"forward", "replace"} {
		w := newWorld()
		lines := []string{"tree A(B(D) C E) models=aging-" + request + "-forward-forward fanout=3", "request E", "request C p7", "request D", "request A p7", "request A p9"}
		for range 5 {
			lines = append(lines, "priority D 2", "priority D 1", "cut B", "heal B", "tick 100ms", "settle")
		}
		for _, line := range lines {
			if err := w.do(line); err != nil {
				t.Fatal(err)
			}
		}
		if w.failure != nil {
			t.Fatal(w.failure)
		}
		a := w.nodes["A"].machine
		e := a.find("x").q.waiting[1]
		if e.id.Node.ID != "C" || e.level != 7 || e.overtaken != 1 {
			t.Errorf("%s: %v is at level %d, overtaken by %d; want C at 7, by 1", request, e.id.Node, e.level, e.overtaken)
		}
	}
}

func TestRelevel(t *testing.T) {
	for _, c := range []struct {
		priority  int64
		level     uint8
		overtaken uint16
	}{
		{8, 7, 0},     // less important, though not in level: anew
		{6, 3, 5},     // more important, but it has risen further
		{3, 3, 5},     // just where it is
		{1, 1, 0},     // above what it has gained
		{-1000, 0, 0}, // clamped
	} {
		e := &entry{priority: 7, level: 3, overtaken: 5}
		if e.relevel(c.priority); e.level != c.level || e.overtaken != c.overtaken {
			t.Errorf("priority %d: level %d after %d, want %d after %d", c.priority, e.level, e.overtaken, c.level, c.overtaken)
		}
	}
}
