package pubsub

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"padme/tests/cable"
)

// sluggish is a connection whose every write takes its time while slow.
type sluggish struct {
	net.Conn
	slow *atomic.Bool
	by   time.Duration
}

func (c *sluggish) Write(p []byte) (int, error) {
	if c.slow.Load() {
		time.Sleep(c.by)
	}
	return c.Conn.Write(p)
}

// A broker that answers everything, and all together later than an attempt to connect may
// take, is reconnected to: where thousands come back at once, attempts that are given up
// would go on for ever.
func TestReconnectingToASlowBroker(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		var slow atomic.Bool
		wire := cable.New(func(ctx context.Context) (net.Conn, error) {
			conn, err := d.b.Dial(ctx)
			return &sluggish{conn, &slow, 2500 * time.Millisecond}, err
		})
		p := join(t, "", "a", WithDialer(wire.Dial), WithKeepAlive(time.Minute))
		slow.Store(true)
		wire.Cut()
		wire.Restore()
		pass(time.Minute)
		if !p.Connected() {
			t.Error("a minute later it is not connected")
		}
		slow.Store(false)
	})
}
