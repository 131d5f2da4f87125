package qosmutex

import (
	"context"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
	"padme/tests/brokers"
	"padme/tests/bubble"
	"padme/tests/cable"
)

// world is a broker in virtual time, in a year in which a topic may be created.
type world struct {
	t      *testing.T
	b      *broker.Broker
	clock  Option
	shared register.Register // of all who open the topic
	killed sync.WaitGroup    // members whose end takes time
}

// inVirtualTime runs f with a broker in a bubble of virtual time.
func inVirtualTime(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		start := time.Now()
		b, err := broker.Start(t.Context(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		w := &world{t: t, b: b, clock: WithClock(func() time.Duration { return time.Since(start) }), shared: local.Memory()}
		defer w.killed.Wait()
		f(t, w)
	})
}

// join adds a participant whose cable to the broker can fail.
func (w *world) join(id string) (*pubsub.Participant, *cable.Cable) {
	w.t.Helper()
	c := cable.New(w.b.Dial)
	p, err := pubsub.Join(w.t.Context(), "", id, pubsub.WithDialer(c.Dial))
	if err != nil {
		w.t.Fatal(err)
	}
	return p, c
}

// open adds a member of lock topic t.
func (w *world) open(id string, opts ...Option) *member {
	w.t.Helper()
	m, err := w.tryOpen(id, opts...)
	if err != nil {
		w.t.Fatalf("%s: %v", id, err)
	}
	return m
}

func (w *world) tryOpen(id string, opts ...Option) (*member, error) {
	w.t.Helper()
	p, c := w.join(id)
	topic, err := Open(w.t.Context(), p, "t", append([]Option{WithRegister(w.shared)}, append(opts, w.clock)...)...)
	if err != nil {
		_ = p.Close(context.Background())
		return nil, err
	}
	return &member{topic, p, c, &w.killed}, nil
}

// member is one that a test can kill.
type member struct {
	*Topic
	p      *pubsub.Participant
	cable  *cable.Cable
	killed *sync.WaitGroup
}

// kill ends it as kill -9 does: nothing more of it gets out. To close a participant that
// has no connection may take a while, in which time would pass for the others.
func (m *member) kill() {
	m.cable.Cut()
	m.end(ErrClosed)
	m.killed.Go(m.close)
}

// close ends it in good order.
func (m *member) close() {
	_ = m.Topic.Close(context.Background())
	_ = m.p.Close(context.Background())
}
