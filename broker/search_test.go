package broker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
)

// drawn joins levels that are drawn from few.
func drawn(r *rand.Rand, from string) string {
	levels := make([]string, 1+r.IntN(5))
	for i := range levels {
		levels[i] = string(from[r.IntN(len(from))])
	}
	return strings.Join(levels, "/")
}

// A search finds every topic that is there at its end, whatever was added and removed since it
// began, and nothing that its filters don't match.
func TestASearchFindsWhatIsAddedMeanwhile(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := newQuota(1<<30, acl{})
		there := map[string]bool{}
		change := func(most int) {
			for range r.IntN(most) {
				topic := drawn(r, "abcdefgh")
				there[topic] = r.IntN(3) > 0
				q.keep("alice", topic, map[bool]int64{true: 1}[there[topic]])
			}
		}
		change(8000)
		var filters packets.Subscriptions
		for range 1 + r.IntN(12) {
			f := drawn(r, "abc+")
			if r.IntN(2) == 0 {
				f += "/#"
			}
			filters = append(filters, packets.Subscription{Filter: f, NoLocal: r.IntN(2) == 0})
		}
		found := map[string]bool{}
		tell := func(f *packets.Subscription, topic string) bool {
			if !matches(f.Filter, topic) {
				t.Fatalf("seed %d: %q does not match %q", seed, f.Filter, topic)
			}
			found[topic] = true
			return f.NoLocal
		}
		s := q.search(filters)
		s.begin()
		for n := 0; n < 3; n++ {
			for s.part(tell) {
				change(100)
			}
			change(100)
			s.again()
		}
		for s.part(tell) {
		}
		s.names(tell)
		s.end()
		for topic, is := range there {
			for _, f := range filters {
				if is && matches(f.Filter, topic) && !found[topic] {
					t.Fatalf("seed %d: %q is not found by %q", seed, topic, f.Filter)
				}
			}
		}
		if len(q.searches) > 0 {
			t.Fatal("it goes on")
		}
	}
}

// A part of a search is short, however many the topics and filters are, and its end is reached
// once: others search in between.
func TestASearchIsInParts(t *testing.T) {
	q := newQuota(1<<30, acl{})
	for i := range 3000 {
		q.keep("alice", fmt.Sprintf("x/%04d/y", i), 1)
	}
	var filters packets.Subscriptions
	for i := range 128 {
		filters = append(filters, packets.Subscription{Filter: fmt.Sprintf("x/+/n%d", i)}, packets.Subscription{Filter: fmt.Sprintf("z%d/#", i)})
	}
	s := q.search(filters)
	s.begin()
	defer s.end()
	parts := 1
	for s.part(func(*packets.Subscription, string) bool { t.Error("found"); return true }) {
		parts++
	}
	if least, most := 3000*128/searchSteps, 3000*128/searchSteps+200; parts < least || parts > most {
		t.Errorf("%d parts, want %d to %d", parts, least, most)
	}
	for i := range 50 { // one client's topics come and go
		q.keep("alice", fmt.Sprintf("x/%d", i%5), int64(i/5%2))
		q.keep("alice", fmt.Sprintf("x/%d", i%5), 1)
	}
	if got := slices.Sorted(maps.Keys(s.missed)); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

// A search ends, although ever more topics are added before it.
func TestASearchEnds(t *testing.T) {
	q := newQuota(1<<30, acl{})
	added := 0
	add := func(n int) {
		for range n {
			q.keep("alice", fmt.Sprintf("x/%06d", added), 1)
			added++
		}
	}
	add(3000)
	s := q.search(packets.Subscriptions{{Filter: "#"}})
	s.begin()
	defer s.end()
	found := 0
	tell := func(*packets.Subscription, string) bool { found++; return false }
	for s.part(tell) {
		if add(2 * searchTopics); added > 100_000 {
			t.Fatal("it does not")
		}
	}
	if found != 3000 {
		t.Errorf("%d topics found", found)
	}
	if n := s.again(); n != added-3000 {
		t.Errorf("%d of %d noted", n, added-3000)
	}
	for s.part(tell) {
	}
	if found != added || s.part(tell) {
		t.Errorf("%d of %d topics found, or it goes on", found, added)
	}
}
