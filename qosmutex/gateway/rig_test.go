package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/tests/bubble"
	"padme/tests/cable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a broker in virtual time, in a year in which one may create topics.
type site struct {
	*testing.T
	broker *broker.Broker
	start  time.Time
}

func onSite(t *testing.T, f func(s *site)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		b, err := broker.Start(context.Background(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		f(&site{t, b, time.Now()})
	})
}

// countedCable is a cable that counts the requests of clients which come over each connection.
type countedCable struct {
	*cable.Cable
	mu    sync.Mutex
	wires []*wire
}

func (s *site) cable() *countedCable {
	c := &countedCable{}
	c.Cable = cable.New(func(ctx context.Context) (net.Conn, error) {
		conn, err := s.broker.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wires = append(c.wires, &wire{Conn: conn})
		return c.wires[len(c.wires)-1], nil
	})
	return c
}

type wire struct {
	net.Conn
	requests atomic.Int64
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.requests.Add(int64(bytes.Count(p[:n], []byte("/request{"))))
	return n, err
}

func (s *site) join(id string, dial func(context.Context) (net.Conn, error)) *pubsub.Participant {
	s.Helper()
	p, err := pubsub.Join(context.Background(), "", id, pubsub.WithDialer(dial))
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *site) clock() time.Duration { return time.Since(s.start) }

// create opens a lock topic at a node of its own, which is the root.
func (s *site) create(name string, opts ...qosmutex.Option) (topic *qosmutex.Topic, end func()) {
	s.Helper()
	return s.createBy(name, s.broker.Dial, opts...)
}

// createBy does so through a connection that may break.
func (s *site) createBy(name string, dial func(context.Context) (net.Conn, error), opts ...qosmutex.Option) (topic *qosmutex.Topic, end func()) {
	s.Helper()
	p := s.join("root-of-"+name, dial)
	opts = append([]qosmutex.Option{
		qosmutex.Create(), qosmutex.WithNodePriority(-1 << 63), qosmutex.WithClock(s.clock),
	}, opts...)
	topic, err := qosmutex.Open(context.Background(), p, name, opts...)
	if err != nil {
		s.Fatal(err)
	}
	return topic, func() {
		_ = topic.Close(context.Background())
		_ = p.Close(context.Background())
	}
}

// lock takes what is about to be free.
func (s *site) lock(topic *qosmutex.Topic, resource string) *qosmutex.Hold {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	h, err := topic.Lock(ctx, resource)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// served is a gateway that runs.
type served struct {
	site     *site
	p        *pubsub.Participant
	cable    *countedCable
	asleep   atomic.Int64 // added to its clock
	registry *prometheus.Registry
	cancel   context.CancelFunc
	ended    chan error
}

func (s *site) gateway(id string, opts ...Option) *served {
	s.Helper()
	g := &served{site: s, cable: s.cable(), registry: prometheus.NewRegistry(), ended: make(chan error, 1)}
	g.p = s.join(id, g.cable.Dial)
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	server, err := qosmutex.NewServer(g.p, qosmutex.WithNodePriority(math.MinInt64+1), qosmutex.WithClock(func() time.Duration {
		return s.clock() + time.Duration(g.asleep.Load())
	}))
	if err != nil {
		s.Fatal(err)
	}
	opts = append([]Option{WithMetrics(g.registry)}, opts...)
	go func() {
		err := Serve(ctx, server, opts...)
		server.Close()
		g.ended <- err
	}()
	return g
}

// stop ends the gateway in good order.
func (g *served) stop() {
	g.site.Helper()
	g.cancel()
	if err := <-g.ended; err != nil {
		g.site.Error(err)
	}
	_ = g.p.Close(context.Background())
}

// counted returns a counter's value for one label value.
func (g *served) counted(name, label string) float64 {
	g.site.Helper()
	return counted(g.site.T, g.registry, name, label)
}

func counted(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return 0
}

// foreign is a client without our lock library. Answers it does not wait for are
// kept.
type foreign struct {
	site    *site
	p       *pubsub.Participant
	topic   string
	answers chan jsonlock.Answer
}

func (s *site) client(id, topic string) *foreign {
	s.Helper()
	c := &foreign{site: s, p: s.join(id, s.broker.Dial), topic: topic, answers: make(chan jsonlock.Answer, 4096)}
	_, err := c.p.SubscribeRaw(context.Background(), pubsub.Main, []string{"lock", topic, "client", id, "answer"}, func(m pubsub.RawMessage) {
		var a jsonlock.Answer
		if err := json.Unmarshal(m.Payload, &a); err != nil {
			s.Errorf("%s: answer %s: %v", id, m.Payload, err)
		}
		select {
		case c.answers <- a:
		default: // a test that floods does not read everything
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func (c *foreign) close() { _ = c.p.Close(context.Background()) }

// now is the client's clock.
func (c *foreign) now() string { return strconv.FormatInt(time.Since(c.site.start).Milliseconds(), 10) }

// raw publishes a payload as it is.
func (c *foreign) raw(payload string) {
	c.site.Helper()
	if err := c.p.PublishRaw(pubsub.Main, []string{"lock", c.topic, "client", c.p.ID(), "request"}, []byte(payload), false); err != nil {
		c.site.Fatal(err)
	}
}

// send publishes an operation with the client's clock; more are further fields.
func (c *foreign) send(op jsonlock.Op, id, more string) {
	c.site.Helper()
	payload := `{"op":"` + string(op) + `","id":"` + id + `","session":"s1","sent":` + c.now()
	if more != "" {
		payload += "," + more
	}
	c.raw(payload + "}")
}

// await returns the first answer to id with this outcome, dropping others.
func (c *foreign) await(id string, outcome jsonlock.Outcome) jsonlock.Answer {
	c.site.Helper()
	late := time.NewTimer(10 * time.Minute)
	defer late.Stop()
	var seen []jsonlock.Answer
	for {
		select {
		case a := <-c.answers:
			if a.ID == id && a.Outcome == outcome {
				return a
			}
			seen = append(seen, a)
		case <-late.C:
			c.site.Fatalf("%s: no answer that %q is %s; but %+v", c.p.ID(), id, outcome, seen)
		}
	}
}

// ask sends an operation until it is answered, as clients do, by a server that is ready.
func (c *foreign) ask(op jsonlock.Op, id, more string, want jsonlock.Outcome) jsonlock.Answer {
	c.site.Helper()
	for range 100 {
		c.send(op, id, more)
		late := time.NewTimer(time.Second)
		for waiting := true; waiting; {
			select {
			case a := <-c.answers:
				if a.ID == id && a.Outcome == want && (a.Reason != jsonlock.NotReady || want != jsonlock.Waiting) {
					late.Stop()
					return a
				}
			case <-late.C:
				waiting = false
			}
		}
	}
	c.site.Fatalf("%s: %s %q was never answered with %s", c.p.ID(), op, id, want)
	return jsonlock.Answer{}
}

func fenceOf(t testing.TB, a jsonlock.Answer) uint64 {
	t.Helper()
	f, err := strconv.ParseUint(a.Fence, 10, 64)
	if err != nil || f == 0 {
		t.Fatalf("fence %q of %+v", a.Fence, a)
	}
	return f
}

// until is when the client must stop believing in a, by its clock, in milliseconds.
func until(t testing.TB, a jsonlock.Answer) int64 {
	t.Helper()
	sent, err := a.Sent.Int64()
	if err != nil || a.ValidMS == nil {
		t.Fatalf("no validity in %+v", a)
	}
	return sent + *a.ValidMS
}
