package gateway

import (
	"sync"
	"time"
)

// A gateway bounds what it reads of its clients before anything is decoded. Each client that is
// remembered has a rate of its own, which the others cannot take from it; what it sends beyond that
// comes out of one pool. So many that flood slow each other down, and nobody else. Releases and renewals of one
// request are counted apart, as others wait for the one, and a hold is lost without the other.
// rates counts what clients send.
type rates struct {
	limits  *Limits
	mu      sync.Mutex
	clients map[string]*sent
	pools   [2]bucket // requests, releases
	unknown bucket    // answers that something is not known
	swept   time.Time
}

// sent is what one client may send.
type sent struct {
	own                  [2]bucket // requests, releases
	ends, unknown, names bucket
}

func newRates(now time.Time, l *Limits) *rates {
	return &rates{
		limits: l, clients: map[string]*sent{}, pools: [2]bucket{newBucket(now, l.pool()), newBucket(now, l.pool())},
		unknown: newBucket(now, unknownPool),
	}
}

// take reports whether a message is to be read.
func (r *rates) take(m *message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := 0
	if m.ahead {
		kind = 1
	}
	c := r.of(m.client, m.at)
	return c != nil && c.own[kind].take(m.at) || r.pools[kind].take(m.at)
}

// takeEnd reports whether the end of a session is to be handed to so many topics.
func (r *rates) takeEnd(m *message, topics int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(m.client, m.at)
	return c != nil && c.ends.takeAll(m.at, topics)
}

// takeUnknown reports whether a client is to be told that something is not known.
func (r *rates) takeUnknown(client string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(client, now)
	return c != nil && c.unknown.take(now) || r.unknown.take(now)
}

// takeName reports whether a client may name another new resource.
func (r *rates) takeName(client string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(client, now)
	return c != nil && c.names.take(now)
}

func (s *sent) idle(now time.Time) bool {
	return s.own[0].full(now) && s.own[1].full(now) && s.ends.full(now) && s.unknown.full(now) && s.names.full(now)
}

// of is what a client may send; nil: there are too many of them, so it has the pool only.
func (r *rates) of(client string, now time.Time) *sent {
	if c := r.clients[client]; c != nil {
		return c
	}
	l := r.limits
	if len(r.clients) >= l.clients() && now.Sub(r.swept) >= sweepSoon {
		r.swept = now
		for name, c := range r.clients {
			if c.idle(now) {
				delete(r.clients, name)
			}
		}
	}
	if len(r.clients) >= l.clients() {
		return nil
	}
	c := &sent{
		own:  [2]bucket{newBucket(now, l.ownRequests()), newBucket(now, l.ownReleases())},
		ends: newBurst(now, endRate, endBurst), unknown: newBucket(now, unknownRate),
		names: newBurst(now, float64(l.ClientNames), l.namesAtOnce()),
	}
	r.clients[client] = c
	return c
}
