package broker

import (
	"bytes"
	"sync"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// unsentSize is how many bytes each of Limits.Unsent messages may have while they wait in an outlet:
// lock messages have some hundred.
const unsentSize = 512

// unsentBytes bounds what waits for one connection in its outlet.
func (l *Limits) unsentBytes() int { return l.Unsent * unsentSize }

// fate is what becomes of a packet that is given to an outlet.
type fate byte

const (
	goesOut         fate = iota
	beyondUnsent         // it is dropped for Limits.Unsent,
	beyondUserQueue      // or for Limits.UserQueue
)

// outlet is where a connection is sent what has not gone through mochi's queue: see direct.
type outlet struct {
	attached atomic.Pointer[func(topic string, payload []byte)] // of a connection in the process that takes calls

	mu    sync.Mutex
	early [][]byte // waits until the session is resumed
	bytes int      // of those
	over  bool     // the connection has ended
	opens sync.WaitGroup
}

// send sends a packet after those that were sent before it. It does not block. The packet
// is dropped if the most that may wait do so already; one may wait however long it is.
func (o *outlet) send(c *conn, cl *mqtt.Client, frame []byte, l *Limits) fate {
	o.mu.Lock()
	defer o.mu.Unlock()
	writes, waiting := c.buffer.holds()
	waiting += o.bytes
	switch {
	case o.over:
		return goesOut
	case writes+len(o.early) >= l.Unsent || waiting > 0 && waiting+len(frame) > l.unsentBytes():
		return beyondUnsent
	case waiting > 0 && c.share != nil && c.unreadTooMuch(*l):
		return beyondUserQueue
	case len(o.early) == 0 && c.established():
		o.write(c, cl, frame)
		return goesOut
	}
	if o.early = append(o.early, bytes.Clone(frame)); len(o.early) == 1 {
		o.opens.Go(func() { o.open(c, cl) })
	}
	o.bytes += len(frame)
	return goesOut
}

// open sends what came before the session was resumed.
func (o *outlet) open(c *conn, cl *mqtt.Client) {
	<-c.greeted
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.write(c, cl, bytes.Join(o.early, nil))
	}
	o.early, o.bytes = nil, 0
}

// write writes between two packets of mochi's.
func (o *outlet) write(c *conn, cl *mqtt.Client, p []byte) {
	cl.Lock()
	defer cl.Unlock()
	_, _ = c.Write(p) // which closes the connection if that fails
}

// end lets nothing out any more, and waits for what writes. The connection is closed.
func (o *outlet) end(c *conn) {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.opens.Wait()
	c.buffer.writer.Wait()
}
