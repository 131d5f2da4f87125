package pubsub

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"padme/tests/brokers"
	"padme/tests/bubble"
)

// The readers of a writer that goes on acknowledge windows of its samples, and are asked
// only when it pauses.
func TestReadersAcknowledgeWindows(t *testing.T) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		const window = 2048 // samples that are acknowledged together
		const readers, samples = 10, 2*window + 100
		var c counted
		c.start(t)
		t.Cleanup(func() { stopBroker(t, c.b.Load()) })
		q := QoS{Reliability: Reliable, History: KeepAll}
		var all []*Reader[pose]
		for i := range readers {
			all = append(all, readerOf(t, topicOf[pose](t, join(t, "", fmt.Sprint("to", i), WithDialer(c.dial)), "p"), q))
		}
		w := writerOf(t, topicOf[pose](t, join(t, "", "from", WithDialer(c.dial)), "p"), q)
		awaitReaders(t, w, readers)
		pass(time.Second)
		before, _ := c.messages(t)
		for range samples {
			write(t, w, pose{Robot: "r"})
			pass(time.Millisecond)
		}
		after, _ := c.messages(t)
		// As many acknowledgements as windows, and nothing else.
		if got, want := after-before, samples+2*readers; got > want {
			t.Errorf("%d samples to %d readers were %d messages, want %d", samples, readers, got, want)
		}
		pass(time.Second)
		last, _ := c.messages(t)
		if got, want := last-after, 2*readers; got > want {
			t.Errorf("the pause cost %d messages, a heartbeat and an answer for each reader are %d", got, want)
		}
		if wait := w.send.Lagging(samples); wait != nil {
			t.Error("not all is acknowledged a second later")
		}
		for _, r := range all {
			if got := len(r.Take(2 * samples)); got != samples {
				t.Errorf("%d of %d samples came", got, samples)
			}
		}
	})
}

// A writer that is closed asks often: without a deadline it waits for as long as
// acknowledgements come.
func TestCloseHearsOfEachStep(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		var slow atomic.Bool
		a := join(t, "", "a", WithDialer(func(ctx context.Context) (net.Conn, error) {
			conn, err := d.b.Dial(ctx)
			return &sluggish{conn, &slow, 5 * time.Millisecond}, err
		}))
		q := QoS{Reliability: Reliable, History: KeepAll}
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		slow.Store(true)
		const samples = 3500 // 17 s
		for range samples {
			write(t, w, pose{Robot: "r"})
		}
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
		slow.Store(false)
		if got := len(values(r)); got != samples {
			t.Errorf("%d of %d samples came", got, samples)
		}
	})
}
