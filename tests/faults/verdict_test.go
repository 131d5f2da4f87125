//go:build linux

package faults

import (
	"path/filepath"

	"github.com/anishathalye/porcupine"
)

// verdict is what a cluster's histories and files come to.
type verdict struct {
	porcupine.CheckResult
	entries, losses, refusals   int
	lostBare, lostSafe, tooMuch int // updates of the counters
}

// end kills everybody and judges.
func (c *cluster) end() (v verdict) {
	c.t.Helper()
	var histories [][]event
	inDoubt, bare, safe := 0, 0, 0
	for _, m := range c.members {
		c.kill(m)
		for _, life := range m.lives {
			histories = append(histories, life)
			n := tally(life)
			v.entries += n[got]
			v.losses += n[lost]
			v.refusals += n[refused]
			bare += n[wrote]
			safe += n[guarded]
			if e := (&reader{events: life}).last(got, guarded, refused); e.what == got {
				inDoubt++ // it may have written and not have said so
			}
		}
	}
	c.broker.kill()
	v.CheckResult = check(c.t, histories...)
	v.lostBare = max(0, bare-c.total("bare"))
	v.lostSafe = max(0, safe-c.total("safe"))
	v.tooMuch = max(0, c.total("safe")-safe-inDoubt)
	return v
}

// tally counts the events by kind; losses that were seen twice once.
func tally(events []event) map[string]int {
	n := map[string]int{}
	seen := map[uint64]bool{}
	for _, e := range events {
		if e.what == lost {
			if seen[e.fence] {
				continue
			}
			seen[e.fence] = true
		}
		n[e.what]++
	}
	return n
}

func (c *cluster) total(kind string) (sum int) {
	c.t.Helper()
	for _, r := range resources {
		n, err := (&counter{filepath.Join(c.dir, r+"."+kind)}).read()
		if err != nil {
			c.t.Fatal(err)
		}
		sum += n
	}
	return sum
}
