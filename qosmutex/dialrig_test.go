package qosmutex_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/jsonlock"
	"padme/tests/brokers"
	"padme/tests/bubble"
	"padme/tests/cable"
)

// site is a broker in virtual time, in a year in which one may create topics.
type site struct {
	*testing.T
	broker *broker.Broker
	start  time.Time
	users  bool // each participant has an account of its name
}

func onSite(t *testing.T, f func(s *site)) {
	t.Helper()
	onSiteOf(t, broker.Config{}, f)
}

func onSiteOf(t *testing.T, cfg broker.Config, f func(s *site)) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		b, err := broker.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		f(&site{t, b, time.Now(), cfg.Users != nil})
	})
}

func (s *site) clock() time.Duration { return time.Since(s.start) }

func (s *site) join(id string, opts ...pubsub.Option) *pubsub.Participant {
	s.Helper()
	opts = append([]pubsub.Option{pubsub.WithDialer(s.broker.Dial)}, opts...)
	if s.users {
		opts = append(opts, pubsub.WithCredentials(id, "secret"))
	}
	p, err := pubsub.Join(context.Background(), "", id, opts...)
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// slowLine is a cable on which subscriptions may take their time.
type slowLine struct {
	*cable.Cable
	mu   sync.Mutex
	slow []time.Duration // how long the next subscriptions are on their way
}

func (s *site) line() *slowLine {
	l := &slowLine{}
	l.Cable = cable.New(func(ctx context.Context) (net.Conn, error) {
		conn, err := s.broker.Dial(ctx)
		return slowConn{conn, l}, err
	})
	return l
}

type slowConn struct {
	net.Conn
	line *slowLine
}

func (c slowConn) Write(b []byte) (int, error) {
	time.Sleep(c.line.delay(b[0]))
	return c.Conn.Write(b)
}

// delay is that of a packet, by its first byte.
func (l *slowLine) delay(packet byte) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if subscribe := byte(0x82); len(l.slow) > 0 && packet == subscribe {
		d, l.slow = l.slow[0], l.slow[1:]
	}
	return d
}

// serving is what a participant that serves says of itself.
var serving = pubsub.WithUserData(map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks})

// server is a participant that serves clients.
type server struct {
	site   *site
	p      *pubsub.Participant
	line   *slowLine
	cancel context.CancelFunc
	ended  chan error
}

// serve has a participant serve locks until stop or kill.
func (s *site) serve(id string) *server {
	s.Helper()
	g := &server{site: s, line: s.line(), ended: make(chan error, 1)}
	g.p = s.join(id, pubsub.WithDialer(g.line.Dial), serving)
	locks, err := qosmutex.NewServer(g.p, qosmutex.WithNodePriority(1-1<<63), qosmutex.WithClock(s.clock))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go func() {
		err := gateway.Serve(ctx, locks)
		locks.Close()
		g.ended <- err
	}()
	return g
}

func (g *server) stop() {
	g.site.Helper()
	g.cancel()
	if err := <-g.ended; err != nil && !errors.Is(err, qosmutex.ErrClosed) {
		g.site.Error(err)
	}
	_ = g.p.Close(context.Background())
}

// edge is a client with its own connection and clock.
type edge struct {
	*qosmutex.Client
	p      *pubsub.Participant
	line   *slowLine
	asleep atomic.Int64 // added to its clock
}

func (s *site) client(id, topic string, opts ...qosmutex.Option) *edge {
	s.Helper()
	e := &edge{line: s.line()}
	will, session := qosmutex.LastWill(id)
	e.p = s.join(id, pubsub.WithDialer(e.line.Dial), pubsub.Unannounced(), will)
	opts = append([]qosmutex.Option{session, qosmutex.WithClock(func() time.Duration {
		return s.clock() + time.Duration(e.asleep.Load())
	})}, opts...)
	c, err := qosmutex.Dial(context.Background(), e.p, topic, opts...)
	if err != nil {
		s.Fatal(err)
	}
	e.Client = c
	return e
}

func (e *edge) close() {
	_ = e.Close(context.Background())
	_ = e.p.Close(context.Background())
}

// lock takes what is about to be free.
func (s *site) lock(of qosmutex.Locker, resource string, opts ...qosmutex.LockOption) *qosmutex.Hold {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	h, err := of.Lock(ctx, resource, opts...)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// warm has a server open the client's lock topic.
func (s *site) warm(e *edge) {
	s.Helper()
	s.unlock(s.lock(e.Client, "warm"))
}

func (s *site) unlock(h *qosmutex.Hold) {
	s.Helper()
	if err := h.Unlock(); err != nil {
		s.Error(err)
	}
}

// root opens a lock topic at a participant of its own, which is the root.
func (s *site) root(name string) (topic *qosmutex.Topic, end func()) {
	s.Helper()
	p := s.join("root-of-" + name)
	topic, err := qosmutex.Open(context.Background(), p, name,
		qosmutex.Create(), qosmutex.WithOpenResources(), qosmutex.WithNodePriority(-1<<63), qosmutex.WithClock(s.clock))
	if err != nil {
		s.Fatal(err)
	}
	return topic, func() {
		_ = topic.Close(context.Background())
		_ = p.Close(context.Background())
	}
}

// wire counts what clients and their server say.
type wire struct {
	p        *pubsub.Participant
	requests chan pubsub.RawMessage
	answers  chan pubsub.RawMessage
}

func (s *site) tap(topic string) *wire {
	s.Helper()
	w := &wire{s.join("tap"), make(chan pubsub.RawMessage, 1000), make(chan pubsub.RawMessage, 1000)}
	for kind, to := range map[string]chan pubsub.RawMessage{"request": w.requests, "answer": w.answers} {
		if _, err := w.p.SubscribeRaw(context.Background(), pubsub.Main, []string{"lock", topic, "client", "+", kind}, func(m pubsub.RawMessage) { to <- m }); err != nil {
			s.Fatal(err)
		}
	}
	return w
}

func (w *wire) close() { _ = w.p.Close(context.Background()) }

// op is the operation of a request.
func op(t testing.TB, m pubsub.RawMessage) jsonlock.Op {
	t.Helper()
	r, err := jsonlock.DecodeRequest(m.Payload)
	if err != nil {
		t.Fatalf("%s: %v", m.Payload, err)
	}
	return r.Op
}
