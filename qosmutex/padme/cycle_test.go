package padme

import (
	"strings"
	"testing"
)

// A cycle of parents that nobody leaves fails a run, and one that ends in time does not (I5).
func TestCycleOfParentsIsFound(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		w := newWorld()
		play(t, w, "tree A(B(C))", "settle")
		b, c := w.nodes["B"].machine, w.nodes["C"].machine
		was := b.parent
		up := *c.parent
		up.peer = c.self
		b.parent = &up
		c.children = append(c.children, &link{peer: b.self})
		if w.checkTreeShape() || w.failure != nil {
			t.Fatalf("a cycle has begun: %v", w.failure)
		}
		w.now += w.timing.Grace() + 10*w.timing.Heartbeat
		if !lasts {
			b.parent = was
		}
		if ok := w.checkTreeShape(); ok == lasts {
			t.Errorf("lasts: %v, and the tree is sound: %v", lasts, ok)
		}
		if failed := w.failure != nil && strings.Contains(w.failure.Error(), "cycle of parents"); failed != lasts {
			t.Errorf("lasts: %v, and it failed: %v", lasts, w.failure)
		}
	}
}
