package pubsub

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/tests/extent"
)

// leaky is a way to the broker whose connection for samples can lose what is sent.
type leaky struct {
	to    func(context.Context) (net.Conn, error)
	leaks atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
	gone  bool
}

func (l *leaky) dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil, errors.New("the process has crashed")
	}
	conn, err := l.to(ctx)
	if l.conns = append(l.conns, conn); err != nil || len(l.conns) != 2 {
		return conn, err
	}
	return &leakyConn{conn, l}, nil
}

// crash ends all connections without a word.
func (l *leaky) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for _, c := range l.conns {
		c.Close()
	}
}

type leakyConn struct {
	net.Conn
	l *leaky
}

func (c *leakyConn) Write(p []byte) (int, error) {
	if c.l.leaks.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A connection is cut at a real broker, with samples on the way of which the reader has
// heard.
func TestWhatACrashedWriterCouldNotSendIsToldAsLost(t *testing.T) {
	extent.Long(t, "a lease that runs out")
	t.Parallel()
	url := startBroker(t)
	way := &leaky{to: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(url, "mqtt://"))
	}}
	a := join(t, url, "a", WithDialer(way.dial))
	w := writerOf(t, topicOf[pose](t, a, "p"), everything)
	b := join(t, url, "b")
	r := newReader(t, topicOf[pose](t, b, "p"), WithQoS(everything), func(o *endpointOptions) { o.patience = time.Second })
	awaitReaders(t, w, 1)
	write(t, w, poseOf("r", 1))
	if err := w.WaitAcked(testContext(t)); err != nil {
		t.Fatal(err)
	}
	way.leaks.Store(true)
	for i := range 5 {
		write(t, w, poseOf("r", float64(i+2)))
	}
	heard := make(chan struct{}, 1)
	stop, err := b.Inbox("heard", func(Message) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	w.send.Last() // tells the reader of the samples, by the way that messages take
	if err := a.Send("b", "heard", nil); err != nil {
		t.Fatal(err)
	}
	receive(t, heard, "what tells the reader of the samples")
	way.crash()
	var lost SampleLost
	for e := range r.Events(testContext(t)) {
		var ok bool
		if lost, ok = e.(SampleLost); ok {
			break
		}
	}
	if lost != (SampleLost{w.GUID(), 5}) {
		t.Errorf("told %+v", lost)
	}
	if got := values(r); !slices.Equal(got, []float64{1}) {
		t.Errorf("got %v", got)
	}
}
