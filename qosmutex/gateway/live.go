package gateway

import (
	"sync"
	"time"

	"padme/qosmutex/jsonlock"
)

// live counts the requests that wait or hold, of all lock topics. The zero live is ready.
type live struct {
	mu       sync.Mutex
	total    int
	byClient map[string]int
}

func (l *live) add(client string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byClient == nil {
		l.byClient = map[string]int{}
	}
	l.total += n
	if l.byClient[client] += n; l.byClient[client] <= 0 {
		delete(l.byClient, client)
	}
}

// counts returns how many there are, and how many of a client.
func (l *live) counts(client string) (total, own int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.byClient[client]
}

// mayOpen reports why a client cannot have another live request.
func (s *active) mayOpen(c *client, at time.Time) error {
	total, own := s.g.live.counts(c.name)
	l := &s.g.limits
	switch {
	case c.live >= l.ClientRequestsPerLock:
		s.g.beyond(limitLockRequests, s.name, c.name, at)
		return jsonlock.Refuse(jsonlock.TooMany, "%d requests of this client live already", c.live)
	case own >= l.ClientRequests:
		s.g.beyond(limitClientRequests, s.name, c.name, at)
		return jsonlock.Refuse(jsonlock.TooMany, "you have %d requests that wait or hold, in all locks together, the most at a time: release some, or ask again in a while", own)
	case total >= l.Requests:
		s.g.beyond(limitRequests, s.name, c.name, at)
		return jsonlock.Refuse(jsonlock.TooMany, "the server is busy: it has %d requests already; ask again in a while", l.Requests)
	}
	return nil
}
