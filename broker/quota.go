package broker

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// quota bounds what each user has the broker retain: one that publishes on ever new
// topics must not take the memory of all.
type quota struct {
	limit int64

	mu      sync.Mutex
	byTopic map[string]kept
	byUser  map[string]int64
	topics  []string // of byTopic, sorted
	added   []string // to topics, the latest; see addedSince
	dropped int      // from the beginning of added
}

type kept struct {
	user string
	size int64
}

func newQuota(limit int) *quota {
	return &quota{limit: int64(limit), byTopic: map[string]kept{}, byUser: map[string]int64{}}
}

// keep reports whether a user may have a message retained, and charges what it costs.
// One of no cost clears the topic and is always allowed.
func (q *quota) keep(user, topic string, size int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.hasRoom(user, topic, size) {
		return false
	}
	q.set(user, topic, size)
	return true
}

// fits reports whether keep would allow a message now.
func (q *quota) fits(user, topic string, size int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasRoom(user, topic, size)
}

// ensure charges what is retained already, whatever has happened to its charge since keep
// has allowed it.
func (q *quota) ensure(user, topic string, size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byTopic[topic] != (kept{user, size}) {
		q.set(user, strings.Clone(topic), size) // or it would keep the packet
	}
}

// hasRoom is fits with mu held.
func (q *quota) hasRoom(user, topic string, size int64) bool {
	used := q.byUser[user]
	if old := q.byTopic[topic]; old.user == user {
		used -= old.size
	}
	return size <= 0 || used+size <= q.limit
}

// set has mu held.
func (q *quota) set(user, topic string, size int64) {
	old, known := q.byTopic[topic]
	q.charge(old.user, -old.size)
	q.charge(user, size)
	at, _ := slices.BinarySearch(q.topics, topic)
	switch {
	case size > 0 && !known:
		topic = strings.Clone(topic) // or it would keep the packet
		q.topics = slices.Insert(q.topics, at, topic)
		if q.added = append(q.added, topic); len(q.added) > 2*keptAdded {
			q.added, q.dropped = slices.Clone(q.added[keptAdded:]), q.dropped+keptAdded
		}
	case size == 0 && known:
		q.topics = slices.Delete(q.topics, at, at+1)
	}
	if size == 0 {
		delete(q.byTopic, topic)
	} else {
		q.byTopic[topic] = kept{user, size}
	}
}

func (q *quota) charge(user string, size int64) {
	if q.byUser[user] += size; q.byUser[user] == 0 {
		delete(q.byUser, user)
	}
}

// restore charges what the data directory held to whom its topics name. In order, as
// each goes into a sorted list.
func (q *quota) restore(b *Broker) {
	all := b.server.Topics.Retained.GetAll()
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		if pk := all[topic]; !isSys(topic) {
			q.keep(b.access.acl.owner(topic), topic, retainedCost(topic, len(pk.Payload), &pk.Properties))
		}
	}
}

// owner is the user whose name stands in a topic, "" where none does.
func (a acl) owner(topic string) string {
	l := a.levels(topic)
	if len(l) < 3 {
		return ""
	}
	at := map[string]int{"presence": 2, "ep": 3, "node": 3, "data": 5}[l[1]]
	if l[1] == "lock" && len(l) > 4 && named(l[3]) {
		at = 4
	}
	if at == 0 || at >= len(l) {
		return ""
	}
	name, err := url.PathUnescape(l[at])
	if err != nil {
		return ""
	}
	return name
}
