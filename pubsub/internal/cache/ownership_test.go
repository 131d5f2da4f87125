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
				if _, err := c.Accept(Sample{Key: "k", Writer: w, Seq: seq + 1, Strength: w.Strength, Change: w.Change}, now); err != nil {
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
				c.Strengthen(w, rapid.IntRange(0, 2).Draw(t, "new strength"), w.Change+1)
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
				if owner != nil && i.strengths == c.strengths && !late[o] && o.stronger(owner) {
					t.Fatalf("%v is stronger than the owner %v", o.GUID, owner.GUID)
				}
			}
		}
	})
}

// The strong writer of before wrote, became weaker, and then the other one wrote. A late
// joiner gets that in the order in which their histories come.
func TestTheHistoryOfAFormerOwnerDoesNotReplaceTheOwners(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		what     string
		strength int // of the writer that was of 20
		nanos    uint64
		want     string
	}{
		{"it was the owner before", 5, 1, "other"},
		{"it was when it wrote again", 5, 3, "strong"},
		{"it still is", 15, 1, "strong"},
	} {
		c := New(&Policies{Exclusive: true, Depth: 1, MaxSamples: 10, MaxInstances: 10})
		strong := &Writer{GUID: wire.GUID{Participant: "a", Endpoint: "w1"}, Strength: test.strength, Change: 1}
		other := &Writer{GUID: wire.GUID{Participant: "b", Endpoint: "w1"}, Strength: 10}
		_, _ = c.Accept(Sample{Key: "k", Writer: other, Seq: 1, Nanos: 2, Strength: 10, Body: []byte("other")}, now)
		_, _ = c.Accept(Sample{Key: "k", Writer: strong, Seq: 1, Nanos: test.nanos, Strength: 20, Body: []byte("strong")}, now)
		got := c.Collect(9, &Selection{}, true, nil)
		if len(got) != 1 || string(got[0].Body) != test.want {
			t.Errorf("%s: got %q, want %q", test.what, got[0].Body, test.want)
		}
		if owner := c.byKey["k"].owner; owner.Strength != max(10, test.strength) {
			t.Errorf("%s: one of strength %d owns", test.what, owner.Strength)
		}
	}
}

// Each sample may say another strength: what it costs does not depend on how many instances
// its writer has.
func TestAnInstanceFollowsAStrengthWhenItIsUsed(t *testing.T) {
	c := New(&Policies{Exclusive: true, Depth: 1, MaxSamples: 1000, MaxInstances: 1000})
	strong := &Writer{GUID: wire.GUID{Participant: "a", Endpoint: "w1"}, Strength: 20}
	other := &Writer{GUID: wire.GUID{Participant: "b", Endpoint: "w1"}, Strength: 10}
	now := time.Now()
	const n = 100
	seq := uint64(0)
	accept := func(w *Writer, key, strength int, change uint64) {
		seq++
		_, _ = c.Accept(Sample{Key: fmt.Sprint(key), Writer: w, Seq: seq, Nanos: seq, Strength: strength, Change: change}, now)
	}
	for key := range n {
		accept(strong, key, 20, 0)
		accept(other, key, 10, 0)
	}
	accept(strong, 0, 5, 1)
	visited := 0
	for _, i := range c.byKey {
		if i.owner == other {
			visited++
		}
	}
	if visited != 1 {
		t.Errorf("a sample of one instance had an owner found for %d", visited)
	}
	for key := range n {
		accept(other, key, 10, 0)
	}
	for _, h := range c.Collect(2*n, &Selection{}, true, nil) {
		if h.Writer != other {
			t.Errorf("%s: the last is of the weaker one", h.Key)
		}
	}
}

// A writer changes its strength while others write, and whatever of its announcements a
// reader knows when a sample comes, later ones included: the same samples count, and in the
// end the same writer owns.
func TestWhenAReaderHearsOfAStrengthDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strengths := rapid.SliceOfN(rapid.IntRange(-1, 4), 1, 6).Draw(t, "strengths")
		policies := Policies{KeepAll: true, MaxSamples: 1000, MaxInstances: 10, Exclusive: true, BySourceTime: rapid.Bool().Draw(t, "by source")}
		type reader struct {
			c   *Cache
			all []*Writer // the first changes its strength
		}
		readers := []*reader{{c: New(&policies)}, {c: New(&policies)}}
		for _, r := range readers {
			for i, n := range []int{strengths[0], 1, 3} {
				r.all = append(r.all, &Writer{GUID: wire.GUID{Participant: fmt.Sprint("p", i), Endpoint: "w1"}, Strength: n})
			}
		}
		announced := []int{0, 0}
		tell := func(i, change int) {
			announced[i] = max(announced[i], change)
			readers[i].c.Strengthen(readers[i].all[0], strengths[announced[i]], uint64(announced[i]))
		}
		now := time.Unix(0, 0)
		change := 0
		for seq := range uint64(rapid.IntRange(1, 40).Draw(t, "steps")) {
			who := rapid.IntRange(0, 2).Draw(t, "writer")
			if rapid.IntRange(0, 3).Draw(t, "op") == 0 && change < len(strengths)-1 {
				change++
				tell(0, change)
			}
			tell(1, rapid.IntRange(0, len(strengths)-1).Draw(t, "announced"))
			s := Sample{Key: "k", Seq: seq + 1, Nanos: 100 + seq}
			if policies.BySourceTime {
				s.Nanos -= rapid.Uint64Range(0, 3).Draw(t, "behind")
			}
			if rapid.IntRange(0, 5).Draw(t, "what") == 0 {
				s.Status = wire.StatusUnregister
			}
			var accepted []bool
			for _, r := range readers {
				s.Writer = r.all[who]
				if s.Strength, s.Change = s.Writer.Strength, 0; who == 0 {
					s.Strength, s.Change = strengths[change], uint64(change)
				}
				before := r.c.live
				_, _ = r.c.Accept(s, now)
				accepted = append(accepted, r.c.live > before)
			}
			if who == 0 && s.Status == wire.StatusData && !policies.BySourceTime && accepted[0] != accepted[1] {
				t.Fatalf("sample %d counts: %v", s.Seq, accepted)
			}
		}
		for i := range readers {
			tell(i, len(strengths)-1)
		}
		var owners []wire.GUID
		for _, r := range readers {
			owner := wire.GUID{}
			if i := r.c.byKey["k"]; i != nil {
				if r.c.followStrengths(i); i.owner != nil {
					owner = i.owner.GUID
				}
			}
			owners = append(owners, owner)
		}
		if owners[0] != owners[1] {
			t.Fatalf("owners %v", owners)
		}
	})
}
