package gateway

import (
	"hash/maphash"
	"slices"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// A resource that nobody declared begins to exist when it is named: its root makes a place for
// it, forgets another one for that, and publishes both. That costs many times what an entry into
// one that is known does. So how many new ones each client names is bounded.

// namesKept is how many of the names used last are known at least. A root remembers 1,024 of
// those that are idle, so a known name is not a new one to it.
const namesKept = 512

// names are the resources of one lock topic that were used last, by their hashes: names are
// long, and nothing depends on an error but who is charged.
type names struct {
	seed           maphash.Seed
	recent, before map[uint64]struct{}
}

func newNames() names { return names{seed: maphash.MakeSeed(), recent: map[uint64]struct{}{}} }

// knows reports whether a name was used lately.
func (n *names) knows(resource string) bool {
	h := maphash.String(n.seed, resource)
	_, recent := n.recent[h]
	_, before := n.before[h]
	return recent || before
}

// use notes a name.
func (n *names) use(resource string) {
	h := maphash.String(n.seed, resource)
	if _, known := n.recent[h]; !known && len(n.recent) >= namesKept {
		n.before, n.recent = n.recent, map[uint64]struct{}{}
	}
	n.recent[h] = struct{}{}
}

// mayName reports why a client cannot have a resource: it names new ones too fast.
func (s *active) mayName(c *client, resource string, at time.Time) error {
	if s.names.knows(resource) || declared(s.lock, resource) || s.g.rates.takeName(c.name, at) {
		return nil
	}
	s.g.beyond(limitNames, s.name, c.name, at)
	l := &s.g.limits
	return jsonlock.Refuse(jsonlock.TooFast, "you name new resources too fast, %d a second are the most after the first %d: use the same names again, declare them, or ask again in a while", l.ClientNames, int(l.namesAtOnce()))
}

// declared reports whether a resource is not made by naming it: the lock declares it, or no
// others than those that it does. While a lock is not open (nil) nobody knows.
func declared(lock *qosmutex.Topic, resource string) bool {
	if lock == nil {
		return false
	}
	v := lock.View()
	_, found := slices.BinarySearch(v.Resources, resource)
	return found || !v.Open
}
