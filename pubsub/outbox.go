package pubsub

import (
	"fmt"
	"sync"
	"time"
)

const (
	// MaxPayload is the largest payload of a letter or raw message, in bytes:
	// with topic and envelope it stays below the megabyte that brokers accept.
	MaxPayload = 1_000_000

	// outboxPackets and outboxBytes bound what waits for the network on one lane.
	outboxPackets = 4096
	outboxBytes   = 16 << 20

	// sideTopics bounds the retained topics waiting on the side lane, sideEvents
	// the other messages.
	sideTopics = 16384
	sideEvents = 1024
)

// packet is one thing for the pump of a lane to do: publish, or run op.
type packet struct {
	topic   string
	payload []byte
	retain  bool
	qos     byte
	place   uint64               // in the order of a fifo, from 1
	op      func(*link, *flight) // instead of publishing; may wait for receipts
	current func() bool          // nil, or whether it is still to be published

	bundle  *bundle // of a sample that may share its message; nil for everything else
	mixed   string  // topic once samples of other instances have joined; "" if they must not
	gathers bool    // more may join
	shared  bool    // payload is of several
}

// outbox is what waits for the network on one lane.
type outbox interface {
	// put never blocks. It keeps p.payload.
	put(p packet) error
	// take removes the next packet. While the broker is busy with others, which are
	// not acknowledged, it may leave packets to gather until due.
	take(busy bool) (p packet, due time.Time, ok bool)
	// ready has a token when there may be something to take.
	ready() <-chan struct{}
	// open and lost follow the connection; unacked was published on a connection
	// that is gone. They return how many packets were dropped.
	open()
	lost(unacked []packet) (dropped int)
}

func checkPayload(payload []byte) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, the most is %d: split it", ErrTooLarge, len(payload), MaxPayload)
	}
	return nil
}

// fifo is the outbox of a lane whose users resend after a reconnection.
type fifo struct {
	mu     sync.Mutex
	online bool
	queue  deque
	bytes  int
	placed uint64 // place of the last packet put
	// gathering counts packets of the queue that may grow; due is when the first of
	// them ends to.
	gathering int
	due       time.Time

	wake chan struct{}
	full chan struct{} // closed when there is room again; nil if nobody waits
}

func newFIFO() *fifo { return &fifo{wake: make(chan struct{}, 1)} }

func (f *fifo) put(p packet) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.online {
		return ErrOffline
	}
	if p.bundle != nil && f.bytes+len(p.payload) <= outboxBytes && f.join(&p) {
		f.bytes += len(p.payload)
		return nil // whoever takes packets knows of this one
	}
	if p.op == nil && (f.queue.len() >= outboxPackets || f.bytes+len(p.payload) > outboxBytes) {
		return fmt.Errorf("%w: %d messages wait for the broker: it or the network is too slow, send less", ErrBacklog, f.queue.len())
	}
	f.placed++
	p.place = f.placed
	if p.bundle != nil && len(p.payload) < maxBundle {
		f.gather(&p)
	}
	f.queue.push(p)
	f.bytes += len(p.payload)
	signal(f.wake)
	return nil
}

// last returns the place of the last packet put.
func (f *fifo) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.placed
}

func (f *fifo) take(busy bool) (p packet, due time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if busy && f.waits() {
		return packet{}, f.due, false
	}
	p, ok = f.queue.pop()
	f.bytes -= len(p.payload)
	if p.gathers {
		f.gathering--
	}
	if f.roomy() {
		f.release()
	}
	return p, time.Time{}, ok
}

// room returns a channel that is closed when it is worth trying again.
func (f *fifo) room() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full == nil {
		f.full = make(chan struct{})
	}
	if !f.online || f.roomy() {
		defer f.release()
	}
	return f.full
}

func (f *fifo) roomy() bool {
	return f.queue.len() < outboxPackets/2 && f.bytes <= outboxBytes/2
}

func (f *fifo) release() {
	if f.full != nil {
		close(f.full)
		f.full = nil
	}
}

func (f *fifo) ready() <-chan struct{} { return f.wake }

func (f *fifo) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.online = true
}

func (f *fifo) lost(unacked []packet) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.queue.len() + len(unacked)
	f.online, f.queue, f.bytes, f.gathering = false, deque{}, 0, 0
	f.release()
	return n
}

// coalescer is the outbox of the side lane: of retained messages the latest of
// each topic waits, of others the newest, and both outlive a lost connection.
type coalescer struct {
	mu       sync.Mutex
	retained deque // topics in order of arrival; their packets are in latest
	latest   map[string]packet
	events   deque
	dropped  func() // counts one event given up
	wake     chan struct{}
}

func newCoalescer(dropped func()) *coalescer {
	return &coalescer{latest: map[string]packet{}, dropped: dropped, wake: make(chan struct{}, 1)}
}

func (c *coalescer) put(p packet) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer signal(c.wake)
	if !p.retain {
		if c.events.len() >= sideEvents {
			c.events.pop()
			c.dropped()
		}
		c.events.push(p)
		return nil
	}
	if _, waiting := c.latest[p.topic]; !waiting {
		if len(c.latest) >= sideTopics {
			return fmt.Errorf("%w: %d topics wait for the broker", ErrBacklog, len(c.latest))
		}
		c.retained.push(packet{topic: p.topic})
	}
	c.latest[p.topic] = p
	return nil
}

// take prefers retained messages: they tell the state which the events led to.
func (c *coalescer) take(bool) (p packet, due time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.retained.pop(); ok {
		p = c.latest[first.topic]
		delete(c.latest, first.topic)
		return p, due, true
	}
	p, ok = c.events.pop()
	return p, due, ok
}

func (c *coalescer) ready() <-chan struct{} { return c.wake }

func (c *coalescer) open() { signal(c.wake) }

func (c *coalescer) lost(unacked []packet) (dropped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var again deque // events go out again, before those that came later
	for _, p := range unacked {
		if !p.retain {
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
		if !p.retain {
			continue
		}
		if _, newer := c.latest[p.topic]; !newer {
			c.latest[p.topic] = p
			c.retained.push(packet{topic: p.topic})
		}
	}
	return dropped
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// deque is a queue in a ring which grows.
type deque struct {
	ring       []packet
	head, size int
}

func (d *deque) len() int { return d.size }

func (d *deque) push(p packet) {
	if d.size == len(d.ring) {
		ring := make([]packet, max(8, 2*len(d.ring)))
		n := copy(ring, d.ring[d.head:])
		copy(ring[n:], d.ring[:d.head])
		d.ring, d.head = ring, 0
	}
	d.ring[(d.head+d.size)%len(d.ring)] = p
	d.size++
}

// at returns the packet of a fifo with a place, nil if it is not there any more.
func (d *deque) at(place uint64) *packet {
	if d.size == 0 {
		return nil
	}
	n := place - d.ring[d.head].place // a smaller place makes it huge
	if n >= uint64(d.size) {
		return nil
	}
	return &d.ring[(d.head+int(n))%len(d.ring)]
}

func (d *deque) pop() (packet, bool) {
	if d.size == 0 {
		return packet{}, false
	}
	p := d.ring[d.head]
	d.ring[d.head] = packet{}
	d.head = (d.head + 1) % len(d.ring)
	d.size--
	return p, true
}
