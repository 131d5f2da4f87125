package cache

import (
	"container/heap"
	"time"

	"padme/pubsub/internal/wire"
)

// Expiry is the end of a sample with a lifespan.
type Expiry struct {
	due   time.Time
	place int // in the cache's heap
}

// ExpiryOf returns the end of a sample, nil if it has none. The end is that of the
// writer's clock, but at most a lifespan after its receipt: a clock that is behind does
// not prolong it.
func ExpiryOf(e *wire.Envelope, now time.Time) *Expiry {
	if e.Options.Lifespan == 0 {
		return nil
	}
	span := time.Duration(min(e.Options.Lifespan, maxLifespan))
	left := time.Unix(0, int64(e.Nanos)).Add(span).Sub(now)
	return &Expiry{due: now.Add(min(left, span))}
}

// maxLifespan keeps sums of what strangers send from overflowing: a hundred
// years.
const maxLifespan = uint64(100 * 365 * 24 * time.Hour)

// Over reports whether the sample has expired.
func (e *Expiry) Over(now time.Time) bool { return e != nil && !now.Before(e.due) }

// expiries is a heap of held samples, the first to expire on top.
type expiries []*Held

func (m expiries) Len() int { return len(m) }

func (m expiries) Less(i, j int) bool { return m[i].Expiry.due.Before(m[j].Expiry.due) }

func (m expiries) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].Expiry.place, m[j].Expiry.place = i, j
}

func (m *expiries) Push(x any) {
	h := x.(*Held)
	h.Expiry.place = len(*m)
	*m = append(*m, h)
}

func (m *expiries) Pop() any {
	last := len(*m) - 1
	h := (*m)[last]
	(*m)[last] = nil
	*m = (*m)[:last]
	return h
}

// expires and neverExpires follow what enters and leaves the cache.
func (c *Cache) expires(h *Held) {
	if h.Expiry != nil {
		heap.Push(&c.expiries, h)
	}
}

func (c *Cache) neverExpires(h *Held) {
	if h.Expiry != nil {
		heap.Remove(&c.expiries, h.Expiry.place)
	}
}

// expire gives up samples that have outlived their lifespan.
func (c *Cache) expire(now time.Time) {
	for len(c.expiries) > 0 && c.expiries[0].Expiry.Over(now) {
		c.remove(c.expiries[0])
	}
}
