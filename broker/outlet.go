package broker

import (
	"bytes"
	"sync"
	"sync/atomic"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// waitingBytes bounds what waits for one connection. Lock messages have some hundred bytes.
const waitingBytes = 4 << 20

// outlet is where a connection is sent what has not gone through mochi's queue: see direct.
// What the connection does not take at once waits, and a goroutine writes it. Either is done
// under mochi's lock of the client, under which mochi writes packets.
type outlet struct {
	attached atomic.Pointer[func(topic string, payload []byte)] // of a connection in the process that takes calls

	mu      sync.Mutex // held while a write is tried, never while one may block
	busy    bool       // there is a goroutine that writes what waits
	over    bool       // the connection has ended
	waiting [][]byte
	bytes   int             // of those
	raw     syscall.RawConn // of the socket; nil for one that cannot be tried
	trying  []byte          // by attempt, and how much of it was written
	took    int
	attempt func(fd uintptr) (done bool)
	drains  sync.WaitGroup
}

func (o *outlet) init(c *conn) {
	o.attempt = func(fd uintptr) bool {
		o.took = tryWrite(fd, o.trying)
		return true
	}
	if g, ok := c.Conn.(*guest); ok { // TLS and WebSocket have more to do
		if s, ok := g.Conn.(syscall.Conn); ok {
			o.raw, _ = s.SyscallConn()
		}
	}
}

// send sends a packet after those that were sent before it. It does not block. It reports
// false if the packet is dropped, as the most that may wait do so already.
func (o *outlet) send(c *conn, cl *mqtt.Client, frame []byte, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return true
	}
	if !o.busy && c.established() && cl.TryLock() {
		rest := o.try(c, frame)
		if len(rest) == 0 {
			cl.Unlock()
			return true
		}
		o.busy = true
		rest = bytes.Clone(rest)
		o.drains.Go(func() { o.drain(c, cl, rest) })
		return true
	}
	if len(o.waiting) >= most || o.bytes+len(frame) > waitingBytes {
		return false
	}
	o.waiting = append(o.waiting, bytes.Clone(frame))
	o.bytes += len(frame)
	if !o.busy {
		o.busy = true
		o.drains.Go(func() { o.drain(c, cl, nil) })
	}
	return true
}

// try writes what the socket takes, and returns the rest.
func (o *outlet) try(c *conn, b []byte) []byte {
	if o.raw == nil || c.gone.Load() {
		return b
	}
	c.renewDeadline()
	o.trying, o.took = b, 0
	_ = o.raw.Write(o.attempt)
	o.trying = nil
	return b[o.took:]
}

// drain writes first, for which mochi's lock is held if there is anything, and then what waits.
func (o *outlet) drain(c *conn, cl *mqtt.Client, first []byte) {
	<-c.greeted
	locked := first != nil
	for err := error(nil); ; {
		if !locked {
			cl.Lock()
		}
		locked = false
		if err == nil && len(first) > 0 {
			_, err = c.Write(first)
		}
		o.mu.Lock()
		first = bytes.Join(o.waiting, nil)
		o.waiting, o.bytes = nil, 0
		o.busy = len(first) > 0
		o.mu.Unlock()
		cl.Unlock()
		if len(first) == 0 {
			return
		}
	}
}

// end lets nothing out any more, and waits for the goroutine. The connection is closed.
func (o *outlet) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.drains.Wait()
}

// empty reports whether nothing waits.
func (o *outlet) empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.busy
}
