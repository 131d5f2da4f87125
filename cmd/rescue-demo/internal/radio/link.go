// Package radio is the link between a robot and the rest of the world: real
// network connections which really break while an obstacle is in the way.
package radio

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// Dial opens a connection.
type Dial func(context.Context) (net.Conn, error)

// Link opens connections while there is radio contact and breaks them all when
// it is cut. The zero value is not usable; see New. It is safe for concurrent
// use.
type Link struct {
	dial Dial

	mu      sync.Mutex
	contact chan struct{} // closed while there is contact, and once it is broken
	up      bool
	broken  bool // for good
	conns   map[*conn]struct{}
	cuts    int
}

// New returns a link which has contact and opens its connections with dial.
func New(dial Dial) *Link {
	l := &Link{dial: dial, up: true, contact: make(chan struct{}), conns: map[*conn]struct{}{}}
	close(l.contact)
	return l
}

// Dial opens a connection. Without contact it waits for it, as a connection
// attempt nobody hears would, until ctx ends.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	for {
		l.mu.Lock()
		contact, broken := l.contact, l.broken
		l.mu.Unlock()
		if broken {
			return nil, errCut
		}
		select {
		case <-contact:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		raw, err := l.dial(ctx)
		if err != nil {
			return nil, err
		}
		if c := l.keep(raw); c != nil {
			return c, nil
		}
		raw.Close() // cut while it was being opened
	}
}

func (l *Link) keep(raw net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return nil
	}
	c := &conn{Conn: raw, link: l}
	l.conns[c] = struct{}{}
	return c
}

// Cut breaks every connection, drops what they had not sent yet, and lets no new
// one through until Restore.
func (l *Link) Cut() {
	l.mu.Lock()
	if !l.up {
		l.mu.Unlock()
		return
	}
	l.up = false
	l.cuts++
	l.contact = make(chan struct{})
	broken := l.conns
	l.conns = map[*conn]struct{}{}
	l.mu.Unlock()
	for c := range broken {
		c.cut.Store(true)
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // what is still in the buffers never gets through
		}
		c.Conn.Close()
	}
}

// Break cuts the link for good, as the death of its owner does: Restore does
// nothing any more.
func (l *Link) Break() {
	l.mu.Lock()
	again := l.broken
	l.broken = true // from here on there is no Restore
	l.mu.Unlock()
	if again {
		return
	}
	l.Cut()
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.contact) // whoever waits for it need not any more
}

// Restore gives contact again.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up && !l.broken {
		l.up = true
		close(l.contact)
	}
}

// Cuts returns how often the link was cut.
func (l *Link) Cuts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts
}

// errCut is what the end of a cut connection reads and writes. It is not
// net.ErrClosed, which says that this end hung up itself and which network
// clients therefore do not take for a loss.
var errCut = errors.New("radio: contact lost")

// conn is a connection over the link.
type conn struct {
	net.Conn
	link *Link
	cut  atomic.Bool
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.reason(err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.reason(err)
}

func (c *conn) reason(err error) error {
	if err != nil && c.cut.Load() {
		return errCut
	}
	return err
}

func (c *conn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
