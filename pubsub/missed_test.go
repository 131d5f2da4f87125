package pubsub

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"padme/tests/brokers"
	"padme/tests/bubble"
	"padme/tests/cable"
)

// stillborn is a connection that is lost when its participant is about to announce its
// birth, as long as fails.
type stillborn struct {
	net.Conn
	fails *atomic.Bool
}

func (c *stillborn) Write(p []byte) (int, error) {
	if c.fails.Load() && p[0]>>4 == packets.Publish && bytes.Contains(p, []byte("/presence/")) {
		time.Sleep(10 * time.Millisecond) // what the broker retains has come
		c.Close()
	}
	return c.Conn.Write(p)
}

// A writer whose first attempt to reconnect fails late, so that it has seen then that its
// reader lives, and whose broker has forgotten all before the next one, does not take
// that reader for closed while it is on its way back.
func TestWhoComesBackLaterWasNotClosed(t *testing.T) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		var c counted
		c.start(t)
		t.Cleanup(func() { stopBroker(t, c.b.Load()) })
		var fails atomic.Bool
		first := cable.New(func(ctx context.Context) (net.Conn, error) {
			conn, err := c.dial(ctx)
			return &stillborn{conn, &fails}, err
		})
		second := cable.New(c.dial)
		q := QoS{Reliability: Reliable, History: KeepAll}
		w := writerOf(t, topicOf[pose](t, join(t, "", "a", WithDialer(first.Dial)), "p"), q)
		r := readerOf(t, topicOf[pose](t, join(t, "", "b", WithDialer(second.Dial)), "p"), q)
		awaitReaders(t, w, 1)
		fails.Store(true)
		first.Cut()
		first.Restore()
		pass(time.Second)
		second.Cut()
		first.Cut()
		stopBroker(t, c.b.Load())
		c.start(t)
		fails.Store(false)
		first.Restore()
		pass(6 * time.Second)
		write(t, w, pose{Robot: "r", X: 1})
		pass(time.Second)
		if gone := told[Unmatched](w.ep.events); len(gone) > 0 {
			t.Errorf("%v were closed, it believes", gone)
		}
		second.Restore()
		pass(time.Minute)
		if got := values(r); len(got) != 1 {
			t.Errorf("%v came, want 1", got)
		}
	})
}
