package pubsub

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/bubble"
)

// world is a broker in virtual time.
type world struct {
	t *testing.T
	b *broker.Broker
}

// virtually runs f in a bubble of virtual time.
func virtually(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		b, err := broker.Start(context.Background(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stopBroker(t, b) })
		f(t, &world{t, b})
	})
}

func (w *world) join(id string) *Participant {
	w.t.Helper()
	return join(w.t, "", id, WithDialer(w.b.Dial))
}

// joinBy joins over a cable that can fail.
func (w *world) joinBy(id string) (*Participant, *cable) {
	w.t.Helper()
	c := &cable{to: w.b.Dial}
	return join(w.t, "", id, WithDialer(c.dial)), c
}

// pass lets time go by, and what it makes due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// cable is the way of one participant to the broker.
type cable struct {
	to    func(context.Context) (net.Conn, error)
	bytes atomic.Int64 // sent

	mu    sync.Mutex
	conns []net.Conn
	gone  bool        // nobody gets through
	mute  atomic.Bool // bytes vanish both ways
}

func (c *cable) dial(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil, errors.New("the cable is cut")
	}
	conn, err := c.to(ctx)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return &cabled{conn, c}, err
}

// cut ends all connections; the broker notices at once.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, conn := range c.conns {
		conn.Close()
	}
}

// restore lets new connections through.
func (c *cable) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = false
}

type cabled struct {
	net.Conn
	c *cable
}

func (c *cabled) Write(p []byte) (int, error) {
	c.c.bytes.Add(int64(len(p)))
	if c.c.mute.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *cabled) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.c.mute.Load() {
			return n, err
		}
	}
}

// told returns the events of one type that nobody has read, and forgets all.
func told[E Event](ev *events) (out []E) {
	for _, e := range drain(ev) {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// values returns the numbers of the valid samples that wait.
func values(r *Reader[pose]) (out []float64) {
	for _, s := range r.Take(10000) {
		if s.Info.Valid {
			out = append(out, s.Data.X)
		}
	}
	return out
}

// states returns the last state that the samples which wait tell of each
// instance.
func states(r *Reader[pose]) map[string]InstanceState {
	out := map[string]InstanceState{}
	for _, s := range r.Take(10000) {
		out[s.Info.Key] = s.Info.State
	}
	return out
}
