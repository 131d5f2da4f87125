package padme

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"padme/qosmutex/protocol"
)

// TestDeathCostsAGrace kills a holder whom others wait for, anywhere in a tree and at any
// time: somebody enters a grace later, and the time to find another parent: one JoinWait,
// and another if several look for one and the first place is taken.
func TestDeathCostsAGrace(t *testing.T) {
	var longest protocol.Duration
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.quiet = true
		models := drawModels(t)
		script := []string{fmt.Sprintf("tree A models=%v fanout=%d", models, rapid.IntRange(1, 3).Draw(t, "fanout"))}
		n := rapid.IntRange(3, 8).Draw(t, "members")
		for i := range n {
			script = append(script, fmt.Sprintf("join %s p%d", letter(i+1), rapid.IntRange(1, 5).Draw(t, "p")),
				fmt.Sprintf("advance %dms", rapid.IntRange(0, 600).Draw(t, "ms")))
		}
		holder := letter(1 + rapid.IntRange(0, n-2).Draw(t, "holder"))
		script = append(script, "advance 3s", "request "+holder)
		for i := range n {
			if who := letter(i + 1); who != holder && (i == n-1 || rapid.Bool().Draw(t, "waits")) {
				script = append(script, "request "+who)
			}
		}
		script = append(script, fmt.Sprintf("advance %dms", rapid.IntRange(800, 3000).Draw(t, "ms")))
		for _, line := range script {
			if err := w.do(line); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		if len(w.nodes[holder].inside) == 0 {
			t.Fatalf("%s is not inside\n%s", holder, strings.Join(script, "\n"))
		}
		died := w.now
		w.nodes[holder].crashed = true
		for !w.somebodyInside() && w.now < died+10*protocol.Second {
			w.advance(protocol.Millisecond, true)
		}
		longest = max(longest, w.now-died)
		if w.now-died > w.timing.Grace()+2*w.timing.JoinWait+w.timing.Hop {
			t.Fatalf("the next entry is %v ms after the death\n%s", (w.now-died)/protocol.Millisecond, strings.Join(append(script, "crash "+holder), "\n"))
		}
	})
	t.Logf("the longest %v ms", longest/protocol.Millisecond)
}

// somebodyInside reports whether somebody who lives is inside.
func (w *world) somebodyInside() bool {
	for _, n := range w.nodes {
		if !n.crashed && len(n.inside) > 0 {
			return true
		}
	}
	return false
}
