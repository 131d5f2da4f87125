package qosmutex

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub"
	"padme/tests/brokers"
	"padme/tests/parallel"
)

func TestMain(m *testing.M) {
	parallel.Tests(4)
	for test, why := range embeddedOnly {
		brokers.Stays(test, why)
	}
	goleak.VerifyTestMain(brokers.Ending(m), goleak.Cleanup(func(code int) {
		brokers.Report()
		os.Exit(code)
	}))
}

// embeddedOnly are the tests with a broker which the choice of one does not
// concern.
var embeddedOnly = map[string]string{
	"TestRestartedBrokerDelaysOnly": "restarts its broker: tests/brokers does that to all",
	"Example…":                      "what they print shows the embedded broker",
}

// testContext bounds every wait of a test.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// chosen is a broker of the chosen kind.
type chosen string

func (c chosen) URL() string { return string(c) }

func startBroker(t testing.TB, _ string) chosen {
	t.Helper()
	return chosen(brokers.Use(t))
}

// startRemembering starts a broker that tells a late watcher what is retained.
func startRemembering(t testing.TB) string {
	t.Helper()
	return brokers.UseExcept(t, brokers.RabbitMQ, "a watcher of all resources that comes late is told nothing: RabbitMQ returns no retained message for a wildcard")
}

// startWithFreshStates is startRemembering for who looks right after a change.
func startWithFreshStates(t testing.TB) string {
	t.Helper()
	if brokers.Chosen() == brokers.NATS {
		return brokers.UseExcept(t, brokers.NATS, "a server of the cluster may return the state before the last one for minutes: its cache of retained messages is stale")
	}
	return startRemembering(t)
}

// startEmbedded runs an embedded broker at an address until the test ends.
func startEmbedded(t testing.TB, addr string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(testContext(t), broker.Config{TCP: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, b) })
	return b
}

func stopBroker(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("closing the broker: %v", err)
	}
}

func join(t testing.TB, url, id string, opts ...pubsub.Option) *pubsub.Participant {
	t.Helper()
	p, err := pubsub.Join(testContext(t), url, id, append([]pubsub.Option{pubsub.WithDomain(brokers.Domain(t))}, opts...)...)
	if err != nil {
		t.Fatalf("Join(%q): %v", id, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("closing %q: %v", id, err)
		}
	})
	return p
}

// quick suits tests: a death is noticed soon, but not that of a process which
// waits for a loaded machine.
func quick() Timing {
	timing := Local()
	timing.TTL = 1200 * time.Millisecond
	timing.Heartbeat = 150 * time.Millisecond
	return timing
}

func open(t testing.TB, p *pubsub.Participant, name string, opts ...Option) *Topic {
	t.Helper()
	topic, err := Open(testContext(t), p, name, append([]Option{WithTiming(quick())}, opts...)...)
	if err != nil {
		t.Fatalf("%s: Open(%q): %v", p.ID(), name, err)
	}
	t.Cleanup(func() { closeTopic(t, topic) })
	return topic
}

func closeTopic(t testing.TB, topic *Topic) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := topic.Close(ctx); err != nil {
		t.Errorf("closing lock topic %q: %v", topic.Name(), err)
	}
}

// group opens a topic at a root and n members, each a participant of its own.
func group(t testing.TB, url, name string, n int, opts ...Option) (root *Topic, members []*Topic) {
	t.Helper()
	root = open(t, join(t, url, "root"), name, append([]Option{Create(), WithResources("crane", "truck"), WithNodePriority(0)}, opts...)...)
	for i := range n {
		members = append(members, open(t, join(t, url, string(rune('a'+i))), name, opts...))
	}
	return root, members
}

func lock(t testing.TB, topic *Topic, resource string, opts ...LockOption) *Hold {
	t.Helper()
	h, err := topic.Lock(testContext(t), resource, opts...)
	if err != nil {
		t.Fatalf("%s: Lock(%q): %v", topic.self.ID, resource, err)
	}
	return h
}

func unlock(t testing.TB, h *Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

// guarded is what the lock protects. Its own checks need no lock.
type guarded struct {
	inside  atomic.Int32
	fence   atomic.Uint64
	entries atomic.Int32
}

// visit is made inside.
func (g *guarded) visit(t testing.TB, h *Hold) {
	if n := g.inside.Add(1); n != 1 {
		t.Errorf("%d inside at once", n)
	}
	if last := g.fence.Swap(h.Fence()); last >= h.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), last)
	}
	g.entries.Add(1)
	g.inside.Add(-1)
}

// contend has each of the topics enter n times.
func contend(t testing.TB, topics []*Topic, n int, g *guarded) {
	t.Helper()
	var wg sync.WaitGroup
	for _, topic := range topics {
		wg.Go(func() {
			for range n {
				h, err := topic.Lock(testContext(t), "crane")
				if err != nil {
					t.Errorf("%s: %v", topic.self.ID, err)
					return
				}
				g.visit(t, h)
				if err := h.Unlock(); err != nil {
					t.Errorf("%s: Unlock: %v", topic.self.ID, err)
				}
			}
		})
	}
	wg.Wait()
	if want := int32(n * len(topics)); g.entries.Load() != want {
		t.Errorf("%d entries, want %d", g.entries.Load(), want)
	}
}

func models(t testing.TB, s string) Models {
	t.Helper()
	m, err := ParseModels(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
