package connection

import (
	"fmt"
	"sync"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/failure"
)

// Latest is the outbox of the side lane: of retained messages the latest of
// each topic waits, of others the newest, and both outlive a lost connection.
type Latest struct {
	mu       sync.Mutex
	retained deque // topics in order of arrival; their packets are in latest
	latest   map[string]Packet
	events   deque
	ops      deque
	dropped  func() // counts one event given up
	wake     chan struct{}
}

// NewLatest makes an empty one; dropped is called for each message given up, with the
// outbox locked.
func NewLatest(dropped func()) *Latest {
	return &Latest{latest: map[string]Packet{}, dropped: dropped, wake: make(chan struct{}, 1)}
}

// Put implements Outbox.
func (c *Latest) Put(p Packet) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer wait.Signal(c.wake)
	if p.op != nil {
		c.ops.push(p)
		return nil
	}
	if !p.Retain {
		if c.events.len() >= sideEvents {
			c.events.pop()
			c.dropped()
		}
		c.events.push(p)
		return nil
	}
	if _, waiting := c.latest[p.Topic]; !waiting {
		if len(c.latest) >= sideTopics {
			return fmt.Errorf("%w: %d topics wait for the broker", failure.ErrBacklog, len(c.latest))
		}
		c.retained.push(Packet{Topic: p.Topic})
	}
	c.latest[p.Topic] = p
	return nil
}

// Take prefers subscriptions, for which somebody waits, and retained messages: they tell
// the state which the events led to.
func (c *Latest) Take(bool) (p Packet, due time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok = c.ops.pop(); ok {
		return p, due, true
	}
	if first, ok := c.retained.pop(); ok {
		p = c.latest[first.Topic]
		delete(c.latest, first.Topic)
		return p, due, true
	}
	p, ok = c.events.pop()
	return p, due, ok
}

func (c *Latest) ready() <-chan struct{} { return c.wake }

// Open implements Outbox.
func (c *Latest) Open() { wait.Signal(c.wake) }

func (c *Latest) lost(unacked []Packet) (dropped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = deque{} // all is subscribed again
	var again deque // events go out again, before those that came later
	for _, p := range unacked {
		if !p.Retain {
			again.push(p)
		}
	}
	for p, ok := c.events.pop(); ok; p, ok = c.events.pop() {
		again.push(p)
	}
	for ; again.len() > sideEvents; dropped++ {
		again.pop()
	}
	c.events = again
	for i := len(unacked) - 1; i >= 0; i-- { // the newest of a topic wins
		p := unacked[i]
		if !p.Retain {
			continue
		}
		if _, newer := c.latest[p.Topic]; !newer {
			c.latest[p.Topic] = p
			c.retained.push(Packet{Topic: p.Topic})
		}
	}
	return dropped
}
