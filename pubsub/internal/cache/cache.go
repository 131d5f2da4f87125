package cache

import (
	"errors"
	"slices"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

var (
	// ErrInstances says that a sample is of one instance too many.
	ErrInstances = errors.New("pubsub: MaxInstances are known already: raise the limit, or have instances that are over disposed or unregistered")
	// ErrSamples says that there are as many samples as there may be.
	ErrSamples = errors.New("pubsub: MaxSamples wait already: take them faster or raise the limit")
)

// A Cache holds samples for an application that reads or takes them. Its owner sees to it
// that one goroutine at a time uses it. It is made by New.
type Cache struct {
	Wake chan struct{} // gets a token with every sample; has room for one

	policies Policies
	byKey    map[string]*instance
	queue    []*Held // in order of arrival, with gone ones between
	live     int     // of queue, not gone
	data     int     // of live, with data: changes of state are not limited

	refused bool // an instance, for want of room
	freed   bool // room for one since then

	strengths uint64 // how often writers have got another strength

	deadlines  timing.Deadlines
	expiries   expiries
	separation separation
}

// New makes an empty cache.
func New(p *Policies) *Cache {
	return &Cache{
		Wake: make(chan struct{}, 1), policies: *p, byKey: map[string]*instance{},
		deadlines: timing.Deadlines{Period: p.Deadline}, separation: separation{waiting: map[*instance]*Sample{}},
	}
}

// Accept takes a sample in. It reports false when a keep-all cache is full: the
// sample must come again; and an error when it is given up, or its instance is one too
// many.
func (c *Cache) Accept(s Sample, now time.Time) (bool, error) {
	if !s.Orphan {
		c.Strengthen(s.Writer, s.Strength, s.Change)
	}
	i := c.byKey[s.Key]
	if i != nil && c.overruled(i, &s) {
		return true, nil
	}
	if c.policies.KeepAll && s.Status == wire.StatusData && c.data >= c.policies.MaxSamples {
		return false, ErrSamples
	}
	if i == nil {
		if len(c.byKey) >= c.policies.MaxInstances && !c.purge() {
			c.refused = true
			return !c.policies.KeepAll || s.Orphan, ErrInstances
		}
		i = &instance{state: NoWriters, writers: map[*Writer]struct{}{}}
		if s.Status == wire.StatusData && !s.ofTheDead() {
			i.state = Alive
		}
		c.byKey[s.Key] = i
	}
	if c.late(i, &s) {
		if !s.ofTheDead() { // it says who writes the instance, if not what
			i.writers[s.Writer] = struct{}{}
			c.owned(i, &s)
		}
		return true, ErrLate
	}
	was := i.state
	switch s.Status {
	case wire.StatusData:
		if s.ofTheDead() {
			break
		}
		switch i.state {
		case Disposed:
			i.disposed++
			i.view = NewView
		case NoWriters:
			i.noWriters++
			i.view = NewView
		}
		i.state = Alive
		i.writers[s.Writer] = struct{}{}
	case wire.StatusDispose:
		i.state = Disposed
		if !s.ofTheDead() {
			i.writers[s.Writer] = struct{}{}
		}
	case wire.StatusUnregister:
		c.leave(i, s.Writer)
	}
	if !s.ofTheDead() { // nobody keeps its instance alive
		c.written(i, &s, now)
	}
	if c.tooSoon(i, &s, was, now) {
		return true, nil
	}
	if s.Status == wire.StatusData || i.state != was {
		return true, c.add(i, s, now)
	}
	return true, nil
}

// leave takes a writer off an instance.
func (c *Cache) leave(i *instance, w *Writer) {
	delete(i.writers, w)
	i.disown(w)
	if len(i.writers) == 0 && i.state == Alive {
		i.state = NoWriters
	}
}

func (c *Cache) add(i *instance, s Sample, now time.Time) error {
	if s.Status == wire.StatusData {
		for !c.policies.KeepAll && i.data >= c.policies.Depth {
			c.remove(i.held[0])
		}
		if c.data >= c.policies.MaxSamples {
			return ErrSamples
		}
	}
	if c.policies.TimeBasedFilter > 0 && s.Status == wire.StatusData {
		i.given = now
	}
	h := &Held{Sample: s, of: i, State: i.state, Received: now, DisposedGeneration: i.disposed, NoWritersGeneration: i.noWriters}
	i.held = append(i.held, h)
	c.queue = append(c.queue, h)
	c.count(i, h, 1)
	c.expires(h)
	wait.Signal(c.Wake)
	return nil
}

// count follows a sample that enters or leaves the cache.
func (c *Cache) count(i *instance, h *Held, n int) {
	c.live += n
	if h.Valid() {
		c.data += n
		i.data += n
	}
}

// left follows samples that have left the cache.
func (c *Cache) left(i *instance) {
	c.separation.roomy()
	if c.refused && c.over(i) {
		c.refused, c.freed = false, true
	}
}

// over reports whether an instance may be forgotten.
func (c *Cache) over(i *instance) bool {
	return i.state != Alive && len(i.held) == 0 && c.separation.waiting[i] == nil
}

// remove takes a sample out of the cache.
func (c *Cache) remove(h *Held) {
	i := h.of
	h.gone = true
	c.neverExpires(h)
	c.count(i, h, -1)
	if i.held[0] == h {
		i.held[0] = nil
		i.held = i.held[1:]
	} else {
		n := slices.Index(i.held, h)
		i.held = slices.Delete(i.held, n, n+1)
	}
	c.left(i)
	for len(c.queue) > 0 && c.queue[0].gone {
		c.queue[0] = nil
		c.queue = c.queue[1:]
	}
	if len(c.queue) > 2*c.live+64 {
		kept := c.queue[:0:0]
		for _, h := range c.queue {
			if !h.gone {
				kept = append(kept, h)
			}
		}
		c.queue = kept
	}
}

// Leave takes a writer off all instances after its sample number last; those left without
// one tell so.
func (c *Cache) Leave(w *Writer, last uint64, now time.Time) {
	for key, i := range c.byKey {
		if _, wrote := i.writers[w]; !wrote {
			continue
		}
		was := i.state
		if c.leave(i, w); i.state != was {
			c.deadlines.End(key)
			_ = c.add(i, Sample{Key: key, Writer: w, Seq: last, Status: wire.StatusUnregister, Nanos: uint64(now.UnixNano())}, now)
		}
	}
}

// purge forgets an instance which is over and read; it reports whether there was
// one.
func (c *Cache) purge() bool {
	for key, i := range c.byKey {
		if c.over(i) {
			delete(c.byKey, key)
			return true
		}
	}
	return false
}

// Knows reports whether an instance is known.
func (c *Cache) Knows(key string) bool { return c.byKey[key] != nil }

// Held is how many samples are kept.
func (c *Cache) Held() int { return c.live }

// HalfEmpty reports whether there is room for many samples.
func (c *Cache) HalfEmpty() bool { return c.data <= c.policies.MaxSamples/2 }

// Freed reports, once, whether there is room again for an instance that was refused.
func (c *Cache) Freed() bool {
	freed := c.freed
	c.freed = false
	return freed
}
