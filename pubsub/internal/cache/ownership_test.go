package cache

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// Whatever happens in whatever order, an accepted sample comes from somebody whom
// nobody who writes the instance in time is stronger than.
func TestNobodyStrongerIsOverruled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(&Policies{KeepAll: true, MaxSamples: 1000, MaxInstances: 10, Exclusive: true, Deadline: time.Second})
		var all []*Writer
		for i := range 4 {
			g := wire.GUID{Participant: fmt.Sprint("p", i), Endpoint: "w1"}
			all = append(all, &Writer{GUID: g, Strength: rapid.IntRange(0, 2).Draw(t, "strength")})
		}
		now := time.Unix(0, 0)
		// What the test itself knows: who writes the instance, and is late.
		writes, late := map[*Writer]bool{}, map[*Writer]bool{}
		var owner *Writer
		for seq := range uint64(rapid.IntRange(1, 60).Draw(t, "steps")) {
			w := all[rapid.IntRange(0, len(all)-1).Draw(t, "writer")]
			before := c.live
			op := rapid.IntRange(0, 5).Draw(t, "op")
			switch op {
			case 0, 1, 2:
				if _, err := c.Accept(Sample{Key: "k", Writer: w, Seq: seq + 1}, now); err != nil {
					t.Fatal(err)
				}
				writes[w] = true
				delete(late, w)
			case 3:
				if _, err := c.Accept(Sample{Key: "k", Writer: w, Seq: seq + 1, Status: wire.StatusUnregister}, now); err != nil {
					t.Fatal(err)
				}
				delete(writes, w)
				delete(late, w)
			case 4:
				c.Strengthen(w, rapid.IntRange(0, 2).Draw(t, "new strength"))
			case 5:
				now = now.Add(time.Duration(rapid.IntRange(1, 999).Draw(t, "ms")) * time.Millisecond)
				c.MissedDeadlines(now, func(string, uint64) {
					if owner != nil {
						late = maps.Clone(writes)
					}
				})
			}
			best := true // nobody in time is stronger than w
			for o := range writes {
				if o != w && !late[o] && (o.Strength > w.Strength || o.Strength == w.Strength && o.GUID.Participant < w.GUID.Participant) {
					best = false
				}
			}
			accepted := c.live > before
			if op <= 2 && best && !accepted {
				t.Fatal("a sample was dropped although nobody is stronger")
			}
			i := c.byKey["k"]
			if i == nil {
				continue
			}
			owner = i.owner
			if op <= 2 && accepted && owner != w {
				t.Fatal("a sample was accepted of one that is not the owner")
			}
			if owner != nil && (!writes[owner] || late[owner]) {
				t.Fatal("the owner does not write, or is late")
			}
			for o := range writes {
				if owner != nil && !late[o] && o.stronger(owner) {
					t.Fatalf("%v is stronger than the owner %v", o.GUID, owner.GUID)
				}
			}
		}
	})
}
