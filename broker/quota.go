package broker

import (
	"net/url"
	"sync"
)

// keepingCosts is what a retained message costs beside its topic and payload, in
// bytes: its place in mochi's tree and in the tables below.
const keepingCosts = 512

// quota bounds what each user has the broker retain: one that publishes on ever new
// topics must not take the memory of all.
type quota struct {
	limit int64

	mu      sync.Mutex
	byTopic map[string]kept
	byUser  map[string]int64
}

type kept struct {
	user string
	size int64
}

func newQuota(limit int) *quota {
	return &quota{limit: int64(limit), byTopic: map[string]kept{}, byUser: map[string]int64{}}
}

// keep reports whether a user may have a message retained, and charges it. An empty
// payload clears the topic and is always allowed.
func (q *quota) keep(user, topic string, payload int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.byTopic[topic]
	size := int64(keepingCosts + len(topic) + payload)
	if payload == 0 {
		size = 0
	}
	used := q.byUser[user]
	if old.user == user {
		used -= old.size
	}
	if size > 0 && used+size > q.limit {
		return false
	}
	q.charge(old.user, -old.size)
	q.charge(user, size)
	if size == 0 {
		delete(q.byTopic, topic)
	} else {
		q.byTopic[topic] = kept{user, size}
	}
	return true
}

func (q *quota) charge(user string, size int64) {
	if q.byUser[user] += size; q.byUser[user] == 0 {
		delete(q.byUser, user)
	}
}

// restore charges what the data directory held to whom its topics name.
func (q *quota) restore(b *Broker) {
	for topic, pk := range b.server.Topics.Retained.GetAll() {
		if !isSys(topic) {
			q.keep(b.access.acl.owner(topic), topic, len(pk.Payload))
		}
	}
}

// owner is the user whose name stands in a topic, "" where none does.
func (a acl) owner(topic string) string {
	l := a.levels(topic)
	if len(l) < 3 {
		return ""
	}
	at := map[string]int{"presence": 2, "ep": 2, "node": 3, "data": 5}[l[1]]
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
