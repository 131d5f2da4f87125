package cache

import (
	"time"

	"padme/pubsub/internal/timing"
)

// Due returns when Tick has something to do, zero for not until something happens.
func (c *Cache) Due() (next time.Time) {
	if len(c.expiries) > 0 {
		next = c.expiries[0].Expiry.due
	}
	return timing.Earliest(next, timing.Earliest(c.deadlines.Next(), c.separation.due))
}

// Tick does what the policies of time have made due, but for MissedDeadlines.
func (c *Cache) Tick(now time.Time) {
	c.expire(now)
	c.release(now)
}

// MissedDeadlines calls f for each instance of which no sample has come in time, with the
// number of periods that were missed so far. The owner of such an instance loses it.
func (c *Cache) MissedDeadlines(now time.Time, f func(key string, total uint64)) {
	c.deadlines.Missed(now, func(key string) {
		c.ownerLate(key)
		f(key, c.deadlines.Total)
	})
}

// watch gives the deadline of instances another period.
func (c *Cache) watch(period time.Duration, now time.Time) {
	fresh := c.deadlines.Period == 0
	c.deadlines.Restart(period, now)
	if !fresh {
		return
	}
	for key, i := range c.byKey {
		if i.state == Alive {
			c.deadlines.Met(key, now)
		}
	}
}
