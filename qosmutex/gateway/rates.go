package gateway

import (
	"sync"
	"time"

	"padme/qosmutex/jsonlock"
)

// A gateway bounds what it reads of its clients before anything is decoded. Each client that is
// remembered has a rate of its own, which the others cannot take from it; what it sends beyond that comes out of
// one pool. So many that flood slow each other down, and nobody else. Releases and renewals of one
// request are counted apart, as others wait for the one, and a hold is lost without the other.
const (
	ownRequests = jsonlock.Rate / 4 // messages a second
	ownReleases = jsonlock.Rate     // those that look like releases and renewals
	poolRate    = 3 * jsonlock.Rate // of each kind
	// endRate is for ends of sessions, which all topics of their client hear, each of them counted:
	// in 256 topics twenty ends a second, and at once twice as many as a user has connections,
	// which may all be lost at one moment.
	endRate, endBurst = 20 * 256, 200 * 256
	// unknownRate is for answers that something is not known, of each client and beyond that of
	// all: few enough at once that answers to others find room on the connection.
	unknownRate, unknownPool = 20, 500
	// nameRate is for resources that are new and nobody declared, such as the numbers of jobs, and
	// nameBurst for twice as many as a client may have live at once in a lock topic.
	nameRate, nameBurst = 50, 2 * jsonlock.MaxLive
)

// rates counts what clients send.
type rates struct {
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

func newRates(now time.Time) *rates {
	return &rates{
		clients: map[string]*sent{}, pools: [2]bucket{newBucket(now, poolRate), newBucket(now, poolRate)},
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
	if len(r.clients) >= maxClients && now.Sub(r.swept) >= sweepSoon {
		r.swept = now
		for name, c := range r.clients {
			if c.idle(now) {
				delete(r.clients, name)
			}
		}
	}
	if len(r.clients) >= maxClients {
		return nil
	}
	c := &sent{
		own:  [2]bucket{newBucket(now, ownRequests), newBucket(now, ownReleases)},
		ends: newBurst(now, endRate, endBurst), unknown: newBucket(now, unknownRate), names: newBurst(now, nameRate, nameBurst),
	}
	r.clients[client] = c
	return c
}
