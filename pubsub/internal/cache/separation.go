package cache

import (
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// separation is TIME_BASED_FILTER: of each instance a reader gives at most one
// sample in a period. Reliable readers give the last one when the period is over.
type separation struct {
	waiting map[*instance]*Sample
	due     time.Time // when the time of the first of them is over; zero for never
	full    time.Time // when that of one was over for which there was no room; else zero
}

// tooSoon reports whether a sample must not be given now, and if so keeps it.
func (c *Cache) tooSoon(i *instance, s *Sample, was uint8, now time.Time) bool {
	p := &c.separation
	if c.policies.TimeBasedFilter == 0 && len(p.waiting) == 0 {
		return false
	}
	if s.Status != wire.StatusData || i.state != was {
		if s.Status != wire.StatusUnregister { // the last sample of a writer that has gone still counts
			delete(p.waiting, i)
		}
		return false
	}
	if now.Sub(i.given) >= c.policies.TimeBasedFilter {
		delete(p.waiting, i)
		return false
	}
	if c.policies.Reliable {
		held := *s
		p.waiting[i] = &held
		p.due = timing.Earliest(p.due, i.given.Add(c.policies.TimeBasedFilter))
	}
	return true
}

// release gives what has waited for its period. What is given may take the place of
// another sample and so make room: then it looks again.
func (c *Cache) release(now time.Time) {
	p := &c.separation
	for !p.due.IsZero() && !now.Before(p.due) {
		p.due = time.Time{}
		for i, s := range p.waiting {
			over := i.given.Add(c.policies.TimeBasedFilter)
			switch {
			case s.Expiry.Over(now):
				delete(p.waiting, i)
			case over.After(now):
				p.due = timing.Earliest(p.due, over)
			case c.policies.KeepAll && c.data >= c.policies.MaxSamples, c.add(i, *s, now) != nil:
				p.full = timing.Earliest(p.full, over)
			default:
				delete(p.waiting, i)
			}
		}
	}
}

// roomy follows a sample that has left the cache.
func (p *separation) roomy() {
	p.due, p.full = timing.Earliest(p.due, p.full), time.Time{}
}
