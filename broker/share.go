package broker

import (
	"sync"
	"sync/atomic"
	"time"
)

// What a user sends is read as fast as the broker can while nobody else sends anything, and
// else no faster than Limits.UserRate. Nothing is lost by that: the network holds the sender
// back.

const (
	// shareUnit is how many bytes cost as much as a packet.
	shareUnit = 2048
	// shareTime is for how long a packet is processed that costs one: a long search among
	// filters and deliveries to many cost what they are. At the default rate a user has half
	// a processor.
	shareTime = 50 * time.Microsecond
	// shareDue is what a connection may cost between two payments: 2.5 ms of processing.
	shareDue = 50
	// shareRecent is for how long a user counts as one that sends.
	shareRecent = 100 * time.Millisecond
	// sharePause is for how long one that is too fast waits at a time.
	sharePause = 10 * time.Millisecond
)

// shares are those of the users that are connected. The zero value has none.
type shares struct {
	mu     sync.Mutex
	byUser map[string]*share
}

// share is what one user takes of the broker.
type share struct {
	name        string
	connections int          // guarded by the mu of shares
	active      atomic.Int64 // when it last sent something, in nanoseconds
	sent        bucket

	mu      sync.Mutex
	unacked int64 // bytes, of all connections
	unread  int64 // likewise
}

// bucket bounds a rate. It is filled a fiftieth of a second ahead at most.
type bucket struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

// pay takes a cost out of a bucket that is filled at a rate, unless something is owed for an
// earlier one: of many connections that wait one goes on at a time. No cost is taken for more
// than a tenth of a second, so that one packet does not hold its user back for long.
func (b *bucket) pay(cost, rate float64, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+now.Sub(b.at).Seconds()*rate, rate/50)
	b.at = now
	if b.left < 0 {
		return false
	}
	b.left -= min(cost, rate/10)
	return true
}

// enter returns the share of a user that connects.
func (s *shares) enter(user string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUser == nil {
		s.byUser = map[string]*share{}
	}
	of := s.byUser[user]
	if of == nil {
		of = &share{name: user}
		s.byUser[user] = of
	}
	of.connections++
	return of
}

// leave undoes an enter.
func (s *shares) leave(of *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.connections--; of.connections == 0 {
		delete(s.byUser, of.name)
	}
}

// contended reports whether anybody else sends.
func (s *shares) contended(of *share, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.byUser {
		if other != of && now.UnixNano()-other.active.Load() < int64(shareRecent) {
			return true
		}
	}
	return false
}

// slowRead is called before more is read of a connection, or processed, and waits while its
// user has sent too much and others send.
func (b *Broker) slowRead(c *conn) {
	of, now := c.share, time.Now()
	of.active.Store(now.UnixNano())
	for !of.sent.pay(c.readCost, float64(b.cfg.Limits.UserRate), now) && b.shares.contended(of, now) && !b.isClosing() {
		b.limited("max-user-rate", of.name, c.RemoteAddr().String())
		time.Sleep(sharePause)
		now = time.Now()
	}
	c.readCost = 0
}

// begin is called before a packet is processed.
func (c *conn) begin() {
	if c.slow == nil {
		return
	}
	if c.readCost > shareDue {
		c.slow()
	}
	c.began = time.Now()
}

// processed charges a packet.
func (c *conn) processed() {
	if c.slow != nil {
		c.readCost += max(1, float64(time.Since(c.began))/float64(shareTime))
	}
}

func (b *Broker) isClosing() bool {
	select {
	case <-b.stop:
		return true
	default:
		return false
	}
}
