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
		s.names(tell)
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
