package gateway

import "time"

// Bounds of one client.
const (
	maxLive  = 32  // requests that wait or hold
	maxEnded = 64  // requests that are remembered for repeated messages
	rate     = 100 // messages a second
	burst    = 200
)

// Bounds of a gateway.
const (
	maxClients  = 4096
	maxRequests = 8192 // that wait or hold, of all clients
)

// forgetAfter is for how long an ended request is remembered.
const forgetAfter = 5 * time.Minute

// client is a foreign client as far as it must be remembered.
type client struct {
	name    string
	tickets map[key]*ticket
	live    int
	ended   []ended // oldest first
	bucket  bucket
	warned  time.Time // when it was last told that it is too fast
}

type ended struct {
	key
	at time.Time
}

// end notes that a ticket has ended, and forgets those that ended long ago.
func (c *client) end(t *ticket, now time.Time) {
	c.live--
	c.ended = append(c.ended, ended{t.key, now})
	if len(c.ended) > maxEnded {
		c.forget(now, len(c.ended)-maxEnded)
	}
}

// forget drops at least the oldest least ended tickets, and all that are too old.
func (c *client) forget(now time.Time, least int) {
	n := 0
	for n < len(c.ended) && (n < least || now.Sub(c.ended[n].at) > forgetAfter) {
		delete(c.tickets, c.ended[n].key)
		n++
	}
	c.ended = append(c.ended[:0], c.ended[n:]...)
}

// bucket lets a burst through and then a rate.
type bucket struct {
	tokens float64
	at     time.Time
}

func newBucket(now time.Time) bucket { return bucket{burst, now} }

func (b *bucket) take(now time.Time) bool {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(burst, b.tokens+rate*d.Seconds())
		b.at = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
