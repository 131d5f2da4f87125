package pubsub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/bubble"
)

// domain is a broker in virtual time, and who has joined it.
type domain struct {
	t *testing.T
	b atomic.Pointer[broker.Broker] // participants dial while it is replaced
}

func (d *domain) dial(ctx context.Context) (net.Conn, error) { return d.b.Load().Dial(ctx) }

// inVirtualTime runs f in a bubble.
func inVirtualTime(t *testing.T, f func(t *testing.T, d *domain)) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		b, err := broker.Start(context.Background(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stopBroker(t, b) })
		d := &domain{t: t}
		d.b.Store(b)
		f(t, d)
	})
}

func (d *domain) join(id string) *Participant {
	d.t.Helper()
	return join(d.t, "", id, WithDialer(d.dial))
}

// joinBy is join with a switch for the participant's connections.
func (d *domain) joinBy(id string) (*Participant, *fuse) {
	d.t.Helper()
	f := &fuse{d: d}
	return join(d.t, "", id, WithDialer(f.dial)), f
}

// restart replaces the broker by one that remembers nothing.
func (d *domain) restart() {
	d.t.Helper()
	stopBroker(d.t, d.b.Load())
	b, err := broker.Start(context.Background(), broker.Config{})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { stopBroker(d.t, b) })
	d.b.Store(b)
}

// fuse is in the way from one participant to the broker.
type fuse struct {
	d     *domain
	mu    sync.Mutex
	blown bool
	conns []net.Conn
	deaf  atomic.Bool // nothing gets through to the participant, not even an end
}

// fused is a connection through a fuse.
type fused struct {
	net.Conn
	f *fuse
}

func (c *fused) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.f.deaf.Load() {
		return 0, io.EOF
	}
	return n, err
}

func (f *fuse) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blown {
		return nil, errors.New("the fuse has blown")
	}
	c, err := f.d.dial(ctx)
	if err == nil {
		f.conns = append(f.conns, c)
	}
	return &fused{c, f}, err
}

// blow ends all connections at once, as a crash does, and lets no new ones be
// made until it is called with false.
func (f *fuse) blow(blown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blown = blown
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

// settle lets time pass until what is under way has happened.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// xs takes what waits and returns the numbers of its values.
func xs(r *Reader[pose]) (got []float64) {
	for _, s := range r.Take(10_000) {
		if s.Info.Valid {
			got = append(got, s.Data.X)
		}
	}
	return got
}

func expectXs(t *testing.T, what string, r *Reader[pose], want ...float64) {
	t.Helper()
	if got := xs(r); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func newReader[T any](t testing.TB, topic *Topic[T], opts ...EndpointOption) *Reader[T] {
	t.Helper()
	r, err := NewReader(testContext(t), topic, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var keepAll = QoS{Reliability: Reliable, History: KeepAll}

// silent fails if an endpoint was told of something else than matches.
func silent(t *testing.T, what string, ev *events) {
	t.Helper()
	for _, e := range drain(ev) {
		switch e.(type) {
		case Matched, Unmatched, LivelinessChanged:
		default:
			t.Errorf("%s was told %#v", what, e)
		}
	}
}

// matchedPeers counts, without waiting.
func matchedPeers[T any](r *Reader[T]) int {
	n, _ := r.recv.Matches()
	return n
}

func poseOf(key string, x float64) pose { return pose{Robot: key, X: x} }

func name(parts ...any) string { return fmt.Sprint(parts...) }
