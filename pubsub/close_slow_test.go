package pubsub

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowWay is a connection on which each write to the broker takes a while, also those
// that were under way when it was closed.
type slowWay struct {
	net.Conn
	takes *atomic.Int64 // nanoseconds
	queue chan []byte

	mu     sync.Mutex
	closed bool
}

func newSlowWay(conn net.Conn, takes *atomic.Int64) *slowWay {
	c := &slowWay{Conn: conn, takes: takes, queue: make(chan []byte, 1000)}
	go func() {
		defer conn.Close()
		for b := range c.queue {
			time.Sleep(time.Duration(takes.Load()))
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	}()
	return c
}

func (c *slowWay) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.queue <- bytes.Clone(b)
	return len(b), nil
}

// SetWriteDeadline does nothing: Write does not block.
func (c *slowWay) SetWriteDeadline(time.Time) error { return nil }

func (c *slowWay) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		close(c.queue)
	}
	c.closed = true
	return c.SetReadDeadline(time.Now())
}

// What waits is sent for as long as the caller of Close has time, and if that is not
// enough, the broker is left to tell of the death.
func TestCloseAtASlowBroker(t *testing.T) {
	for patience, sent := range map[time.Duration]bool{time.Minute: true, time.Second: false} {
		t.Run(patience.String(), func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				var takes atomic.Int64
				a := join(t, "", "a", WithDialer(func(ctx context.Context) (net.Conn, error) {
					conn, err := w.b.Dial(ctx)
					return newSlowWay(conn, &takes), err
				}))
				b := w.join("b")
				out := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
				pass(time.Second)
				takes.Store(int64(700 * time.Millisecond))
				for i := range 10 {
					write(t, out, poseOf("r1", float64(i)))
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := a.Close(ctx); sent != (err == nil) || !sent && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Close: %v", err)
				}
				late := readerOf(t, topicOf[pose](t, b, "p"), transient)
				pass(time.Minute)
				if pr, known := presenceOf(t, b, "a"); known && pr.Alive {
					t.Error("it is taken for alive")
				}
				if got := values(late); sent && (len(got) != 1 || got[0] != 9) {
					t.Errorf("a late reader gets %v", got)
				}
			})
		})
	}
}
