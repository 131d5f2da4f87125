package cable

import (
	"net"
	"sync"
	"sync/atomic"
)

// conn is a connection over a cable.
type conn struct {
	net.Conn
	cable  *Cable
	closed atomic.Bool
}

func (c *conn) Write(p []byte) (int, error) {
	c.cable.sent.Add(int64(len(p)))
	if c.cable.mute.Load() {
		return len(p), nil
	}
	c.cable.toBroker.pass()
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err == nil && (c.cable.mute.Load() || c.cable.deaf.Load()) {
			continue
		}
		if waited := c.cable.back.pass(); waited && c.closed.Load() {
			return 0, net.ErrClosed // what is held up is lost with its connection
		}
		return n, err
	}
}

func (c *conn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// gate is where bytes wait while it is closed.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when it opens; nil while it is open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass returns when the gate is open, and whether that took waiting.
func (g *gate) pass() (waited bool) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened != nil {
		<-opened
	}
	return opened != nil
}
