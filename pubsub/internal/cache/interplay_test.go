package cache

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// An instance of which nothing was taken in takes no room.
func TestAnInstanceThatIsTurnedAwayIsForgotten(t *testing.T) {
	c := New(&Policies{KeepAll: true, MaxSamples: 1, MaxInstances: 2})
	w := &Writer{GUID: wire.GUID{Participant: "p", Incarnation: 1, Endpoint: "w1"}}
	now := time.Now()
	take := func() { c.Collect(1, &Selection{}, true, nil) }
	for i, key := range []string{"a", "b", "c"} {
		_, _ = c.Accept(Sample{Key: key, Writer: w, Seq: uint64(i + 1)}, now)
	}
	take()
	c.Leave(w, 3, now)
	take()
	if ok, err := c.Accept(Sample{Key: "d", Writer: w, Seq: 4}, now); !ok || err != nil {
		t.Errorf("%v, %v, although nobody writes the other instances", ok, err)
	}
	take()
	if ok, err := c.Accept(Sample{Key: "e", Writer: w, Seq: 5}, now); !ok || err != nil {
		t.Errorf("%v, %v, although of two instances one is known", ok, err)
	}
}

// A strong writer whose clock is behind owns what it writes.
func TestALateSampleShowsWhoOwns(t *testing.T) {
	c := New(&Policies{Reliable: true, KeepAll: true, Exclusive: true, BySourceTime: true, MaxSamples: 10, MaxInstances: 1})
	late := 0
	weak := &Writer{GUID: wire.GUID{Participant: "p", Incarnation: 1, Endpoint: "w1"}}
	strong := &Writer{GUID: wire.GUID{Participant: "p", Incarnation: 1, Endpoint: "w2"}, Strength: 5}
	now := time.Now()
	var got []uint64
	for i, s := range []Sample{{Writer: weak, Nanos: 100}, {Writer: strong, Strength: 5, Nanos: 50}, {Writer: weak, Nanos: 200}, {Writer: strong, Strength: 5, Nanos: 110}} {
		s.Key, s.Seq = "k", uint64(i+1)
		if _, err := c.Accept(s, now); errors.Is(err, ErrLate) {
			late++
		}
		for _, h := range c.Collect(9, &Selection{}, true, nil) {
			got = append(got, h.Seq)
		}
	}
	if !reflect.DeepEqual(got, []uint64{1, 4}) || late != 1 {
		t.Errorf("got %v, %d late; the third is of a writer weaker than one that writes", got, late)
	}
	c.Leave(weak, 4, now)
	if i := c.byKey["k"]; i.state != Alive {
		t.Errorf("%v although one writes it", i.state)
	}
}

// Whatever policies a reader has and whatever comes: who is dead holds nothing, what
// has ended is not kept, and once everybody has gone the cache is empty.
func TestACacheUnderAllPoliciesComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{
			Reliable: true, MaxSamples: rapid.IntRange(2, 6).Draw(t, "samples"), MaxInstances: 3,
			Exclusive: rapid.Bool().Draw(t, "exclusive"), BySourceTime: rapid.Bool().Draw(t, "by source"),
			Depth: rapid.IntRange(1, 2).Draw(t, "depth"), KeepAll: rapid.Bool().Draw(t, "keep all"),
			Transient: rapid.Bool().Draw(t, "transient"),
		}
		if rapid.Bool().Draw(t, "deadline") {
			q.Deadline = 10 * time.Second
		}
		if rapid.Bool().Draw(t, "filter") {
			q.TimeBasedFilter = 5 * time.Second
		}
		c := New(&q)
		var all []*Writer
		alive, last := map[*Writer]bool{}, map[*Writer]uint64{}
		for i := range 3 {
			g := wire.GUID{Participant: "w", Incarnation: 1, Endpoint: fmt.Sprint("w", i)}
			all = append(all, &Writer{GUID: g, Strength: rapid.IntRange(0, 2).Draw(t, "strength")})
		}
		now := time.Now()
		check := func() {
			t.Helper()
			held, data := 0, 0
			for key, i := range c.byKey {
				held, data = held+len(i.held), data+i.data
				for w := range i.writers {
					if !alive[w] {
						t.Fatalf("%q is written by a dead one", key)
					}
				}
				if i.owner != nil && !alive[i.owner] {
					t.Fatalf("%q is owned by a dead one", key)
				}
				if i.state == Alive && len(i.writers) == 0 {
					t.Fatalf("%q is alive without a writer", key)
				}
			}
			if held != c.live || data != c.data || data > q.MaxSamples {
				t.Fatalf("%d held and %d live, of which %d and %d have data", held, c.live, data, c.data)
			}
			for i := range c.separation.waiting {
				if i.state == Disposed && !c.separation.waiting[i].Orphan {
					t.Fatal("a sample of a disposed instance waits")
				}
			}
		}
		tick := func() {
			t.Helper()
			c.Tick(now)
			c.MissedDeadlines(now, func(key string, _ uint64) {
				if i := c.byKey[key]; i == nil || i.state != Alive {
					t.Fatalf("%q has a deadline and is %+v", key, i)
				}
			})
			if next := c.Due(); !next.IsZero() && !next.After(now) {
				t.Fatalf("due %v ago", now.Sub(next))
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w := all[rapid.IntRange(0, 2).Draw(t, "writer")]
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				alive[w] = true
				s := Sample{
					Key: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"), Writer: w, Seq: last[w] + 1, Strength: w.Strength, Change: w.Change,
					Nanos:  uint64(now.UnixNano() - rapid.Int64Range(0, 3).Draw(t, "behind")*int64(time.Second)),
					Status: wire.Status(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "status")),
				}
				if s.Status == wire.StatusData && rapid.Bool().Draw(t, "mortal") {
					s.Expiry = &Expiry{due: now.Add(4 * time.Second)}
				}
				if ok, _ := c.Accept(s, now); ok {
					last[w]++
				}
			case op == 5:
				dead := &Writer{GUID: wire.GUID{Participant: "dead", Incarnation: 1, Endpoint: "w1"}}
				o := Sample{Key: rapid.SampledFrom([]string{"a", "b", "e"}).Draw(t, "key"), Writer: dead, Seq: 1, Nanos: uint64(now.UnixNano()), Orphan: true}
				_, _ = c.Accept(o, now)
			case op == 6:
				alive[w] = false
				c.Leave(w, last[w], now)
			case op == 7:
				now = now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
				tick()
			case op == 8:
				x := Selection{
					Samples: uint8(rapid.IntRange(0, 3).Draw(t, "sample states")), Views: uint8(rapid.IntRange(0, 3).Draw(t, "view states")),
					Instances: uint8(rapid.IntRange(0, 7).Draw(t, "instance states")),
					Keys:      rapid.SampledFrom([][]string{nil, nil, {"a"}, {"b", "c"}}).Draw(t, "keys"),
				}
				there, n := c.Has(&x), rapid.IntRange(1, 9).Draw(t, "n")
				if got := c.Collect(n, &x, rapid.Bool().Draw(t, "take"), nil); (len(got) > 0) != there || len(got) > n {
					t.Fatalf("%d of at most %d samples, there are some: %v", len(got), n, there)
				}
			default:
				c.Strengthen(w, rapid.IntRange(0, 2).Draw(t, "new strength"), w.Change+1)
			}
			check()
		}
		for _, w := range all {
			alive[w] = false
			c.Leave(w, last[w], now)
		}
		for range 3 {
			c.Collect(1000, &Selection{}, true, nil)
			now = now.Add(time.Minute)
			tick()
			check()
		}
		for c.purge() {
		}
		if len(c.byKey) > 0 || c.live > 0 || len(c.expiries) > 0 || len(c.separation.waiting) > 0 || !c.Due().IsZero() {
			t.Fatalf("left: %d instances, %d samples, %d to expire, %d wait", len(c.byKey), c.live, len(c.expiries), len(c.separation.waiting))
		}
	})
}
