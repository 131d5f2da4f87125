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
	// sharePublish is what a PUBLISH costs at most by its time, without subscriptions of its own
	// user. A unit more is for ownPerUnit of those, each of which takes a few microseconds.
	sharePublish = 4
	ownPerUnit   = 4
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
	searching   sync.Mutex
	paying      chan struct{} // full while one of its connections looks whether they may go on
	credit      credit
	heavyUntil  atomic.Int64 // in nanoseconds; see decoded

	mu      sync.Mutex
	unacked int64 // bytes, of all connections
	unread  int64 // likewise
	planned int64 // likewise, of replays
}

// bucket bounds a rate. It is filled a fiftieth of a second ahead at most, and owes a second
// at most.
type bucket struct {
	mu   sync.Mutex
	left float64
	at   time.Time
	owes atomic.Bool // left was negative
}

// pay takes a cost out of a bucket that is filled at a rate, unless something is owed for an
// earlier one: of many connections that wait one goes on at a time. No cost is taken for more
// than a tenth of a second, so that one packet does not hold its user back for long.
func (b *bucket) pay(cost, rate float64, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(rate, now)
	if b.left < 0 {
		return false
	}
	b.take(cost, rate)
	return true
}

// charge takes a cost out of a bucket, whatever is owed.
func (b *bucket) charge(cost, rate float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(rate, now)
	b.take(cost, rate)
}

// fill has mu held.
func (b *bucket) fill(rate float64, now time.Time) {
	b.left = min(b.left+now.Sub(b.at).Seconds()*rate, rate/50)
	b.at = now
	b.owes.Store(b.left < 0)
}

// take has mu held.
func (b *bucket) take(cost, rate float64) {
	b.left = max(b.left-min(cost, rate/10), -rate)
	b.owes.Store(b.left < 0)
}

const (
	// heavyFor is for how many times as long as it took to decode what a user has sent the user counts
	// as heavy afterwards: a thousand accounts that send nothing but work stay heavy, and one that locks
	// a hundred times a second does not become it.
	heavyFor = 1000
	// heavyAfter is how much of that is free.
	heavyAfter = 50 * time.Millisecond
	// longestTurn is the most that one turn counts: on a busy machine it may have lasted longer.
	longestTurn = 2 * time.Millisecond
)

// decoded notes for how long what the user has sent was decoded.
func (s *share) decoded(now int64, took time.Duration) {
	until := max(s.heavyUntil.Load(), now) + heavyFor*int64(min(took, longestTurn))
	s.heavyUntil.Store(min(until, now+heavyFor*int64(longestTurn)))
}

// isHeavy reports whether decoding has taken more than a thousandth of the time lately.
func (s *share) isHeavy(now int64) bool { return s.heavyUntil.Load() > now+int64(heavyAfter) }

// enter returns the share of a user that connects.
func (s *shares) enter(user string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUser == nil {
		s.byUser = map[string]*share{}
	}
	of := s.byUser[user]
	if of == nil {
		of = &share{name: user, paying: make(chan struct{}, 1)}
		s.byUser[user] = of
	}
	of.connections++
	return of
}

// leave undoes an enter.
func (s *shares) leave(of *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.connections--; of.connections == 0 && !of.sent.owes.Load() && !of.credit.owes() {
		delete(s.byUser, of.name) // who owes is a user of ours, and is remembered
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
// user has sent too much and others send. Then it pays in advance, and while others do not
// send nothing: in either case readCost is below zero, and the next packets are for that.
func (b *Broker) slowRead(c *conn) {
	of, now, rate := c.share, time.Now(), float64(b.cfg.Limits.UserRate)
	of.active.Store(now.UnixNano())
	if c.readCost < 0 {
		return
	}
	of.paying <- struct{}{}
	defer func() { <-of.paying }()
	cost := c.readCost
	now = time.Now()
	for !of.sent.pay(cost, rate, now) {
		if !b.shares.contended(of, now) || b.isClosing() {
			c.readCost = -shareDue
			return
		}
		b.limited("max-user-rate", of.name, c.RemoteAddr().String())
		time.Sleep(sharePause)
		now = time.Now()
		cost = max(cost, rate*sharePause.Seconds()) // in advance, or all that wait would go on at once
	}
	c.readCost -= cost
}

// charges reports whether packets are charged. The CONNECT is not while another goroutine reads
// ahead, and is charged for that.
func (c *conn) charges() bool { return c.slow != nil && c.ahead == nil }

// begin is called before a packet is processed.
func (c *conn) begin() {
	if !c.charges() {
		return
	}
	if c.readCost > shareDue || c.readCost >= 0 && c.share != nil && c.share.sent.owes.Load() {
		c.slow()
	}
	c.began = time.Now()
}

// processed charges a packet.
func (c *conn) processed() { c.spent(1) }

// goOn charges what a packet has cost so far, and waits if its user has had its share: one
// SUBSCRIBE may keep a processor busy for a second, on each of the user's connections. No lock
// that others need may be held.
func (c *conn) goOn() {
	c.spent(0)
	c.giveTurn()
	c.begin()
	c.takeTurn()
}

// spent charges the time since began, and at least so much.
func (c *conn) spent(least float64) {
	if c.charges() {
		now := time.Now()
		c.owe(max(least, c.worked(now)), now)
	}
}

// published charges a PUBLISH to a topic of locks, by its time, but for no more than its user's own
// subscriptions, of which there are so many, may add to it: what others subscribe to, and how busy the
// machine is, would hold back those that publish, and with them locks.
func (c *conn) published(own func() int) {
	if !c.charges() {
		return
	}
	now := time.Now()
	cost := c.worked(now)
	if cost > sharePublish {
		cost = min(cost, sharePublish+float64(own())/ownPerUnit)
	}
	c.owe(max(1, cost), now)
}

// worked is for how long the packet has been processed since began.
func (c *conn) worked(now time.Time) float64 { return float64(now.Sub(c.began)) / float64(shareTime) }

// owe charges a cost: a lot at once, as this may be the last packet of its connection.
func (c *conn) owe(cost float64, now time.Time) {
	c.readCost += cost
	c.began = now
	if c.readCost > shareDue && c.share != nil {
		c.share.sent.charge(c.readCost, c.rate, now)
		c.readCost = 0
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
