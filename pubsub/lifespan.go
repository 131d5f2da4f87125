package pubsub

import (
	"container/heap"
	"slices"
	"time"
)

// mortal is the end of a sample with a lifespan.
type mortal struct {
	due   time.Time
	place int // in the reader's heap
}

// lifespanOf returns what a sample says about its end, nil if it has none. The
// end is that of the writer's clock, but at most a lifespan after its receipt: a
// clock that is behind does not prolong it.
func lifespanOf(e *envelope, now time.Time) *mortal {
	if e.options.lifespan == 0 {
		return nil
	}
	span := time.Duration(min(e.options.lifespan, maxLifespan))
	left := time.Unix(0, int64(e.nanos)).Add(span).Sub(now)
	return &mortal{due: now.Add(min(left, span))}
}

// maxLifespan keeps sums of what strangers send from overflowing: a hundred
// years.
const maxLifespan = uint64(100 * 365 * 24 * time.Hour)

func (m *mortal) over(now time.Time) bool { return m != nil && !now.Before(m.due) }

// hasLifespan notes the end of the sample that was written and is held.
func (s *sender) hasLifespan(h *heldSample, what status) {
	if s.qos.Lifespan == 0 || what != statusData {
		return // that an instance is gone does not become untrue
	}
	if s.born.IsZero() {
		s.born = time.Now()
	}
	h.expires = time.Since(s.born) + s.qos.Lifespan
	s.mortals = append(s.mortals, s.seq)
	if len(s.mortals) > 2*len(s.held)+64 {
		s.mortals = slices.DeleteFunc(s.mortals, func(seq uint64) bool { return s.held[seq] == nil })
	}
}

// expire forgets samples that have outlived their lifespan, whoever lacks them.
func (s *sender) expire(now time.Time) (next time.Time) {
	released := false
	for len(s.mortals) > 0 {
		seq := s.mortals[0]
		if h := s.held[seq]; h != nil {
			if due := s.born.Add(h.expires); now.Before(due) {
				next = due
				break
			}
			s.release(seq)
			s.outlived(h.key, seq)
			released = true
		}
		s.mortals = s.mortals[1:]
	}
	if released {
		s.raise()
		s.changed() // a writer that is blocked has room
	}
	return next
}

// mortals is a heap of held samples, the first to expire on top.
type mortals []*held

func (m mortals) Len() int           { return len(m) }
func (m mortals) Less(i, j int) bool { return m[i].mortal.due.Before(m[j].mortal.due) }

func (m mortals) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].mortal.place, m[j].mortal.place = i, j
}

func (m *mortals) Push(x any) {
	h := x.(*held)
	h.mortal.place = len(*m)
	*m = append(*m, h)
}

func (m *mortals) Pop() any {
	last := len(*m) - 1
	h := (*m)[last]
	(*m)[last] = nil
	*m = (*m)[:last]
	return h
}

// keepMortal and forgetMortal follow what enters and leaves the cache.
func (c *instances) keepMortal(h *held) {
	if h.mortal != nil {
		heap.Push(&c.mortals, h)
	}
}

func (c *instances) forgetMortal(h *held) {
	if h.mortal != nil {
		heap.Remove(&c.mortals, h.mortal.place)
	}
}

// expire gives up samples that have outlived their lifespan.
func (c *instances) expire(now time.Time) (next time.Time) {
	for len(c.mortals) > 0 {
		h := c.mortals[0]
		if !h.mortal.over(now) {
			return h.mortal.due
		}
		i := c.byKey[h.key]
		c.drop(i, slices.Index(i.held, h))
	}
	return time.Time{}
}

// expire gives up what has outlived its lifespan; the room may let samples in
// that were turned away.
func (r *receiver) expire(now time.Time) (next time.Time) {
	if len(r.cache.mortals) == 0 {
		return time.Time{}
	}
	r.cache.expire(now)
	r.giveRest()
	r.resume(now)
	return r.cache.expire(now)
}
