package connection

import (
	"math/rand/v2"
	"time"
)

const (
	minBackoff = 100 * time.Millisecond
	// MaxBackoff is the longest wait between attempts to reconnect.
	MaxBackoff = 5 * time.Second
)

// backoff is the wait before the next attempt.
type backoff time.Duration

// next makes the wait a quarter longer, so that it stays short beside the outage: after
// one of 3 s it is at most 1 s. The half of it is random, so that participants do not all
// come back to a restarted broker at once.
func (b *backoff) next() time.Duration {
	d := min(max(5*time.Duration(*b)/4, minBackoff), MaxBackoff)
	*b = backoff(d)
	return d/2 + rand.N(d/2)
}

// lasted begins again after a link that was there for clearly longer than the wait before
// it, as when a broker is restarted now and then. One that comes and goes waits longer
// and longer.
func (b *backoff) lasted(d time.Duration) {
	if d > min(max(2*time.Duration(*b), time.Second), MaxBackoff) {
		*b = 0
	}
}
