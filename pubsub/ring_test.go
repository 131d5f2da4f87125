package pubsub

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/bubble"
)

// counted is a broker in virtual time that forgets all when it is restarted, and counts
// messages.
type counted struct {
	b       atomic.Pointer[broker.Broker]
	figures *prometheus.Registry
}

func (c *counted) start(t *testing.T) {
	t.Helper()
	c.figures = prometheus.NewRegistry()
	b, err := broker.Start(context.Background(), broker.Config{Metrics: c.figures})
	if err != nil {
		t.Fatal(err)
	}
	c.b.Store(b)
}

func (c *counted) dial(ctx context.Context) (net.Conn, error) { return c.b.Load().Dial(ctx) }

// messages returns how many came and how many went out.
func (c *counted) messages(t *testing.T) (in, out int) {
	t.Helper()
	families, err := c.figures.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "padme_broker_messages_received_total":
			in = int(f.GetMetric()[0].GetCounter().GetValue())
		case "padme_broker_messages_sent_total":
			out = int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return in, out
}

// aRing has n participants with a writer and a reader each, which the next and the one
// before match, and returns what that cost, and what a restart of a broker that forgets
// all.
func aRing(t *testing.T, n int) (first, again int) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		var c counted
		c.start(t)
		t.Cleanup(func() { stopBroker(t, c.b.Load()) })
		writers, readers := make([]*Writer[pose], n), make([]*Reader[pose], n)
		for i := range n {
			p := join(t, "", fmt.Sprintf("p%d", i), WithDialer(c.dial))
			writers[i] = writerOf(t, topicOf[pose](t, p, fmt.Sprintf("t%d", i)), QoS{Reliability: Reliable})
			readers[i] = readerOf(t, topicOf[pose](t, p, fmt.Sprintf("t%d", (i+1)%n)), QoS{Reliability: Reliable})
		}
		cost := func(when string) int {
			pass(time.Minute)
			for i := range n {
				if matched := len(writers[i].Matched()) + len(readers[i].Matched()); matched != 2 {
					t.Errorf("%s: participant %d of %d has %d matches, want 2", when, i, n, matched)
				}
			}
			in, out := c.messages(t)
			t.Logf("%s: %d participants: %d messages in, %d out", when, n, in, out)
			return in + out
		}
		first = cost("at first")
		stopBroker(t, c.b.Load())
		c.start(t)
		again = cost("after a restart")
	})
	return first, again
}

// What discovery costs grows with what matches, not with the square of who is there, at
// first and when a broker has forgotten all.
func TestDiscoveryCostsWhatMatches(t *testing.T) {
	first, again := aRing(t, 20)
	first2, again2 := aRing(t, 40)
	if most := first * 26 / 10; first2 > most {
		t.Errorf("twice as many cost %d messages, at most %d were right", first2, most)
	}
	if most := again * 26 / 10; again2 > most {
		t.Errorf("after a restart twice as many cost %d messages, at most %d were right", again2, most)
	}
}
