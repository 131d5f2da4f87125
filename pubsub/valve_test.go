package pubsub

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// valve is the way of one participant to the broker. While it is shut, nothing comes
// back, so that what is on the way to the broker stays unacknowledged.
type valve struct {
	to func(context.Context) (net.Conn, error)

	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil while it is open
}

func (v *valve) dial(ctx context.Context) (net.Conn, error) {
	conn, err := v.to(ctx)
	return &valved{Conn: conn, v: v}, err
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = make(chan struct{})
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut != nil {
		close(v.shut)
		v.shut = nil
	}
}

type valved struct {
	net.Conn
	v      *valve
	closed atomic.Bool
}

// Close loses what stands before the valve.
func (c *valved) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *valved) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.v.mu.Lock()
	shut := c.v.shut
	c.v.mu.Unlock()
	if shut != nil {
		<-shut
		if c.closed.Load() {
			return 0, net.ErrClosed
		}
	}
	return n, err
}
