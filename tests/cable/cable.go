// Package cable is the way of one participant to its broker, which a test cuts or mutes, or
// on which it holds up what is sent. It works in virtual time, too: nothing waits with a
// mutex held.
package cable

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// Dialer makes a connection, as pubsub.WithDialer takes it.
type Dialer = func(context.Context) (net.Conn, error)

// TCP dials the host of an MQTT URL.
func TCP(url string) Dialer {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(url, "mqtt://"))
	}
}

// Cable is the way of one participant, with all its connections.
type Cable struct {
	dial           Dialer
	sent           atomic.Int64
	mute, deaf     atomic.Bool
	toBroker, back gate

	mu      sync.Mutex
	conns   []net.Conn
	refuses bool
}

// New makes a cable to where dial leads, which may be another cable.
func New(dial Dialer) *Cable { return &Cable{dial: dial} }

// Dial makes a connection over the cable.
func (c *Cable) Dial(ctx context.Context) (net.Conn, error) {
	if c.refusing() {
		return nil, net.ErrClosed
	}
	inner, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuses { // since it was asked
		_ = inner.Close()
		return nil, net.ErrClosed
	}
	made := &conn{Conn: inner, cable: c}
	c.conns = append(c.conns, made)
	return made, nil
}

func (c *Cable) refusing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuses
}

// Break ends all connections, which the broker notices at once; others can be made.
func (c *Cable) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// Lose ends the connection that was made as number i, from 0, since the last Break or Cut.
func (c *Cable) Lose(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conns[i].Close()
}

// Refuse lets no new connections through until Restore.
func (c *Cable) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = true
}

// Cut ends all connections and lets no others through until Restore.
func (c *Cable) Cut() {
	c.Refuse()
	c.Break()
}

// Restore lets new connections through.
func (c *Cable) Restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = false
}

// Mute has bytes vanish both ways, or not.
func (c *Cable) Mute(on bool) { c.mute.Store(on) }

// Deafen has bytes from the broker vanish, or not.
func (c *Cable) Deafen(on bool) { c.deaf.Store(on) }

// HoldSent has what the participant sends wait until Release.
func (c *Cable) HoldSent() { c.toBroker.close() }

// HoldReceived has what the broker sends wait until Release, unless the connection ends.
func (c *Cable) HoldReceived() { c.back.close() }

// Release lets through what waits, and all that comes.
func (c *Cable) Release() {
	c.toBroker.open()
	c.back.open()
}

// Sent is how many bytes the participant has sent.
func (c *Cable) Sent() int64 { return c.sent.Load() }
