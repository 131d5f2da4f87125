package papers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/tests/brokers"
	"padme/tests/bubble"
	"padme/tests/parallel"
)

func TestMain(m *testing.M) {
	parallel.Tests(2)
	brokers.Stays("TestARestartedBroker", "restarts its broker with and without a memory")
	brokers.Stays("Example…", "what they print shows the embedded broker")
	goleak.VerifyTestMain(brokers.Ending(m), goleak.Cleanup(func(code int) {
		brokers.Report()
		os.Exit(code)
	}))
}

// testContext bounds every wait of a test.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func closeBroker(t testing.TB, b *broker.Broker) {
	if err := b.Close(testContext(t)); err != nil {
		t.Errorf("closing the broker: %v", err)
	}
}

// freshStates starts a broker that returns the latest retained message.
func freshStates(t testing.TB) string {
	t.Helper()
	return brokers.UseExcept(t, brokers.NATS, "a server of the cluster may return the state before the last one for minutes: its cache of retained messages is stale")
}

func join(t testing.TB, url, id string, opts ...pubsub.Option) *pubsub.Participant {
	t.Helper()
	p, err := pubsub.Join(testContext(t), url, id, append(opts, pubsub.WithDomain(brokers.Domain(t)))...)
	if err != nil {
		t.Fatalf("Join(%q): %v", id, err)
	}
	t.Cleanup(func() {
		if err := p.Close(testContext(t)); err != nil {
			t.Errorf("closing %q: %v", id, err)
		}
	})
	return p
}

func open(t testing.TB, p *pubsub.Participant, name string, cfg Config) *Topic {
	t.Helper()
	topic, err := Open(p, name, cfg)
	if err != nil {
		t.Fatalf("%s: Open(%q): %v", p.ID(), name, err)
	}
	t.Cleanup(func() { closeTopic(t, topic) })
	return topic
}

func closeTopic(t testing.TB, topic *Topic) {
	t.Helper()
	if err := topic.Close(testContext(t)); err != nil {
		t.Errorf("closing lock topic %q: %v", topic.Name(), err)
	}
}

func lock(t testing.TB, topic *Topic, resource string, opts ...qosmutex.LockOption) *qosmutex.Hold {
	t.Helper()
	h, err := topic.Lock(testContext(t), resource, opts...)
	if err != nil {
		t.Fatalf("%s: Lock(%q): %v", topic.self.ID, resource, err)
	}
	return h
}

func unlock(t testing.TB, h *qosmutex.Hold) {
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
func (g *guarded) visit(t testing.TB, h *qosmutex.Hold) {
	if n := g.inside.Add(1); n != 1 {
		t.Errorf("%d inside at once", n)
	}
	if last := g.fence.Swap(h.Fence()); last >= h.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), last)
	}
	g.entries.Add(1)
	g.inside.Add(-1)
}

// enterForASecond has all topics enter as often as they can, for a second and until there
// were two entries for each of them however long that takes.
func enterForASecond(t *testing.T, topics []*Topic) {
	t.Helper()
	var g guarded
	ctx, enough := context.WithCancel(testContext(t))
	defer enough()
	begin := time.Now()
	var wg sync.WaitGroup
	for _, topic := range topics {
		wg.Go(func() {
			for ctx.Err() == nil {
				h, err := topic.Lock(ctx, "crane")
				if errors.Is(err, context.Canceled) {
					return
				}
				if err != nil {
					t.Errorf("%s: Lock after %d entries of all: %v", topic.self.ID, g.entries.Load(), err)
					return
				}
				g.visit(t, h)
				unlock(t, h)
				if time.Since(begin) >= time.Second && g.entries.Load() >= int32(2*len(topics)) {
					enough()
				}
			}
		})
	}
	wg.Wait()
}

// stateOf is the retained state of the crane.
func stateOf(t testing.TB, p *pubsub.Participant, topic string) (s qosmutex.State) {
	t.Helper()
	got := make(chan []byte, 100)
	stop, err := p.SubscribeRaw(testContext(t), pubsub.Main, []string{"lock", topic, "crane", "state"}, func(m pubsub.RawMessage) { got <- m.Payload })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	select {
	case payload := <-got:
		if err := json.Unmarshal(payload, &s); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	case <-time.After(10 * time.Second):
		t.Error("no state within 10 s")
	}
	return s
}

// counting counts the requests that a member receives.
func counting(a protocol.Algorithm, requests *atomic.Int32) protocol.Algorithm {
	inner := a.New
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		m, err := inner(cfg)
		return counted{m, requests}, err
	}
	return a
}

type counted struct {
	protocol.Machine
	requests *atomic.Int32
}

func (c counted) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Receive && in.Message.Kind == protocol.KindRequest {
		c.requests.Add(1)
	}
	return c.Machine.Step(now, in, out)
}

// virtually runs f in virtual time with a broker, in a year in which fences may start.
func virtually(t *testing.T, f func(t *testing.T, join func(id string) *pubsub.Participant)) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		b, err := broker.Start(t.Context(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		f(t, func(id string) *pubsub.Participant {
			p, err := pubsub.Join(context.Background(), "", id, pubsub.WithDialer(b.Dial))
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
	})
}
