package broker

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

// What a participant publishes to all members of a lock topic, on lock/{topic}/join/{P},
// goes to each of them, who handle a bounded part of it (see package qosmutex). What is
// beyond is not delivered: it would fill their connections, where the messages of their
// locks wait behind it. Other brokers leave that to the members.
const (
	// joinRate and joinBurst are more than a member handles of a sender, so that what is
	// dropped here is never missed there.
	joinRate  = 40
	joinBurst = 80
	// joinTopics is how many such topics of a user are remembered, four times as many as it
	// may have opened by naming them. The others share what is for one.
	joinTopics = 4096
	// joinCost is what a dropped one costs its user, in packets: a user that floods is
	// read at a tenth of its rate while others send.
	joinCost = 10
)

// joins bounds what one user publishes to all members of lock topics. The zero value is ready.
type joins struct {
	mu     sync.Mutex
	topics map[uint64]*joinBucket // by hash
	swept  time.Time              // when topics was last looked through
	others joinBucket
}

type joinBucket struct {
	left float64
	at   time.Time
}

func (b *joinBucket) refill(now time.Time) {
	if b.at.IsZero() {
		b.left = joinBurst
	}
	b.left = min(b.left+now.Sub(b.at).Seconds()*joinRate, joinBurst)
	b.at = now
}

var joinSeed = maphash.MakeSeed()

// admit reports whether another message on a topic is delivered.
func (j *joins) admit(topic string, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.bucket(maphash.String(joinSeed, topic), now)
	if b.refill(now); b.left < 1 {
		return false
	}
	b.left--
	return true
}

// bucket has mu held.
func (j *joins) bucket(topic uint64, now time.Time) *joinBucket {
	if b := j.topics[topic]; b != nil {
		return b
	}
	if now.Sub(j.swept) >= time.Second { // so that it costs little, however many there are
		j.swept = now
		for k, b := range j.topics {
			if b.refill(now); b.left >= joinBurst {
				delete(j.topics, k)
			}
		}
	}
	if len(j.topics) >= joinTopics {
		return &j.others
	}
	if j.topics == nil {
		j.topics = map[uint64]*joinBucket{}
	}
	b := &joinBucket{}
	j.topics[topic] = b
	return b
}

// isJoin reports whether a topic is {prefix}{domain}/lock/{topic}/join/{P}.
func (h *direct) isJoin(topic string) bool {
	below, ok := strings.CutPrefix(topic, string(h.prefix))
	if !ok {
		return false
	}
	_, family, _ := strings.Cut(below, "/")
	lock, ok := strings.CutPrefix(family, "lock/")
	if !ok {
		return false
	}
	_, kind, _ := strings.Cut(lock, "/")
	return strings.HasPrefix(kind, "join/")
}

// floods reports whether a publication is one more than is delivered to all members of a lock
// topic, and charges its user for it.
func (h *flow) floods(c *conn, user []byte, topic string) bool {
	if c == nil || c.share == nil || !h.direct.isJoin(topic) || c.share.joins.admit(topic, time.Now()) {
		return false
	}
	h.counts.refusedJoin.Add(1)
	if name, _ := h.joinsTold.count(limitedBy{"joins", string(user)}, time.Now()); name {
		h.log.Warn("a user publishes more to all members of a lock topic than they handle: what is beyond is not delivered", "user", string(user), "topic", topic)
	}
	if c.charges() {
		c.readCost += joinCost - 1
	}
	return true
}
