package reliable

import (
	"padme/pubsub/internal/cache"
)

var anySample cache.Selection

// Collect gives up to n samples that fit to the application, which with take leave
// the cache.
func (r *Receiver) Collect(n int, x *cache.Selection, take bool) []*cache.Held {
	return r.collect(nil, n, x, take)
}

func (r *Receiver) collect(out []*cache.Held, n int, x *cache.Selection, take bool) []*cache.Held {
	r.mu.Lock()
	defer r.unlock()
	r.beOnTime()
	out = r.cache.Collect(n, x, take, out)
	r.refill()
	r.schedule(r.cache.Due()) // what waits for room
	return out
}

// TakeNext gives the oldest sample to the application, nil if there is none.
func (r *Receiver) TakeNext() *cache.Held {
	var one [1]*cache.Held
	if len(r.collect(one[:0], 1, &anySample, true)) == 0 {
		return nil
	}
	return one[0]
}

// Discard gives up a sample of which the application can make nothing.
func (r *Receiver) Discard(h *cache.Held) {
	r.mu.Lock()
	defer r.unlock()
	r.cache.Discard(h)
}

// Waits reports whether a sample fits; if not, the channel is closed when that may have
// changed.
func (r *Receiver) Waits(x *cache.Selection) (there bool, change <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beOnTime()
	return r.cache.Has(x), r.change.Next()
}

// Knows reports whether an instance is known.
func (r *Receiver) Knows(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache.Knows(key)
}

// History reports whether all is there that matched writers wrote before they matched
// and still hold; if not, the channel is closed when that may have changed.
func (r *Receiver) History() (there bool, change <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there = r.orphans == nil || len(r.orphans.turnedAway)+len(r.orphans.waiting) == 0
	for _, w := range r.writers {
		if w.matched && w.reliable && (!w.started || w.next <= w.historic) {
			there = false
		}
	}
	return there, r.change.Next()
}

// Wake gets a token with every sample, and has room for one.
func (r *Receiver) Wake() chan struct{} { return r.cache.Wake }

// Held is how many samples are kept, also of those that nobody may take any more.
func (r *Receiver) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache.Held()
}
