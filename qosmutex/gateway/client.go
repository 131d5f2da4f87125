package gateway

import (
	"time"
	"unicode/utf8"

	"padme/qosmutex/protocol"
)

// Bounds of what is remembered of one client.
const (
	maxEnded = 64 // requests that are remembered for repeated messages
	fewEnded = 4  // the same, while too many are remembered in all
)

// forgetAfter is for how long an ended request is remembered.
const forgetAfter = 5 * time.Minute

// sweepEvery is how often clients are looked for that can be forgotten, and sweepSoon how
// often while there are too many.
const (
	sweepEvery = 10 * time.Second
	sweepSoon  = time.Second
)

// client is a foreign client as far as it must be remembered.
type client struct {
	name    string
	tickets map[key]*ticket
	live    int
	ended   []ended // oldest first
	bucket  bucket
	warned  time.Time // when it was last told that it is too fast
}

// shown is the client's name as states and events have it: of a longer one than they take,
// the beginning.
func (c *client) shown() string {
	if len(c.name) <= protocol.MaxClient {
		return c.name
	}
	const more = "…"
	end := protocol.MaxClient - len(more)
	for !utf8.RuneStart(c.name[end]) {
		end--
	}
	return c.name[:end] + more
}

type ended struct {
	key
	at time.Time
}

// end notes that a ticket has ended, and forgets all but the last few of those that have.
// It returns how many more are remembered than before.
func (c *client) end(t *ticket, now time.Time, few int) int {
	c.live--
	c.ended = append(c.ended, ended{t.key, now})
	if len(c.ended) > few {
		return 1 - c.forget(now, len(c.ended)-few)
	}
	return 1
}

// forget drops at least the oldest least ended tickets, and all that are too old. It
// returns how many.
func (c *client) forget(now time.Time, least int) int {
	n := 0
	for n < len(c.ended) && (n < least || now.Sub(c.ended[n].at) > forgetAfter) {
		delete(c.tickets, c.ended[n].key)
		n++
	}
	if c.ended = append(c.ended[:0], c.ended[n:]...); len(c.ended) == 0 {
		c.ended = nil
	}
	return n
}

// idle reports whether nothing is lost if the client is forgotten.
func (c *client) idle(now time.Time) bool { return len(c.tickets) == 0 && c.bucket.full(now) }

// bucket lets a burst through, and then a rate.
type bucket struct {
	rate   float64
	burst  float64
	tokens float64
	at     time.Time
}

// newBucket has a burst of twice what it lets through in a second.
func newBucket(now time.Time, rate float64) bucket { return newBurst(now, rate, 2*rate) }

func newBurst(now time.Time, rate, burst float64) bucket { return bucket{rate, burst, burst, now} }

func (b *bucket) take(now time.Time) bool { return b.takeAll(now, 1) }

// takeAll takes n, or nothing.
func (b *bucket) takeAll(now time.Time, n int) bool {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.burst, b.tokens+b.rate*d.Seconds())
		b.at = now
	}
	if b.tokens < float64(n) {
		return false
	}
	b.tokens -= float64(n)
	return true
}

func (b *bucket) full(now time.Time) bool {
	return b.tokens+b.rate*now.Sub(b.at).Seconds() >= b.burst
}
