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
	limit int64 // of each room
	acl   acl

	mu       sync.Mutex
	byTopic  map[string]kept
	used     map[room]int64
	topics   []string // of byTopic, sorted
	searches map[*search]struct{}
}

// room is one of the two that each user has, of limit bytes. One is for what makes participants
// and locks work, so that who has filled the other with samples can still join: without users,
// that is everybody.
type room struct {
	user    string
	control bool // of participants and locks
}

type kept struct {
	in   room
	size int64
}

func newQuota(limit int, acl acl) *quota {
	return &quota{limit: int64(limit), acl: acl, byTopic: map[string]kept{}, used: map[room]int64{}, searches: map[*search]struct{}{}}
}

func (q *quota) room(user, topic string) room {
	l := q.acl.levels(topic)
	return room{user, len(l) > 2 && slices.Contains([]string{"presence", "ep", "ask", "node", "lock"}, l[1])}
}

// keep reports whether a user may have a message retained, and charges what it costs.
// One of no cost clears the topic and is always allowed.
func (q *quota) keep(user, topic string, size int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.room(user, topic)
	if !q.hasRoom(in, topic, size) {
		return false
	}
	q.set(in, topic, size)
	return true
}

// fits reports whether keep would allow a message now.
func (q *quota) fits(user, topic string, size int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasRoom(q.room(user, topic), topic, size)
}

// ensure charges what is retained already, whatever has happened to its charge since keep
// has allowed it.
func (q *quota) ensure(user, topic string, size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if in := q.room(user, topic); q.byTopic[topic] != (kept{in, size}) {
		q.set(in, strings.Clone(topic), size) // or it would keep the packet
	}
}

// hasRoom is fits with mu held.
func (q *quota) hasRoom(in room, topic string, size int64) bool {
	used := q.used[in]
	if old := q.byTopic[topic]; old.in == in {
		used -= old.size
	}
	return size <= 0 || used+size <= q.limit
}

// total is what all users are charged.
func (q *quota) total() (sum int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, size := range q.used {
		sum += size
	}
	return sum
}

// count is how many messages are charged: all but mochi's own.
func (q *quota) count() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(len(q.byTopic))
}

// set has mu held.
func (q *quota) set(in room, topic string, size int64) {
	old, known := q.byTopic[topic]
	q.charge(old.in, -old.size)
	q.charge(in, size)
	at, _ := slices.BinarySearch(q.topics, topic)
	switch {
	case size > 0 && !known:
		topic = strings.Clone(topic) // or it would keep the packet
		q.topics = slices.Insert(q.topics, at, topic)
		for s := range q.searches {
			s.missed[topic] = struct{}{}
		}
	case size == 0 && known:
		q.topics = slices.Delete(q.topics, at, at+1)
		for s := range q.searches {
			delete(s.missed, topic)
		}
	}
	if size == 0 {
		delete(q.byTopic, topic)
	} else {
		q.byTopic[topic] = kept{in, size}
	}
}

func (q *quota) charge(in room, size int64) {
	if q.used[in] += size; q.used[in] == 0 {
		delete(q.used, in)
	}
}

// restore charges what the data directory held to whom its topics name. In order, as
// each goes into a sorted list.
func (q *quota) restore(b *Broker) {
	all := b.server.Topics.Retained.GetAll()
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		if pk := all[topic]; !isSys(topic) {
			q.ensure(b.access.owner(topic), topic, retainedCost(&pk)) // whatever the limit is now
		}
	}
}

// owner is who is charged for what is under a topic when it is not known who has retained it.
func (h *access) owner(topic string) string {
	if h.users == nil {
		return ""
	}
	return h.acl.owner(topic)
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
