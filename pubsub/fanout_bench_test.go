package pubsub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// metered is a connection that counts the publishes which are written to it.
type metered struct {
	net.Conn
	published *atomic.Int64

	mu    sync.Mutex
	shift int // of the length that is being read; -1 between packets
	left  int // bytes of the present packet
}

func (c *metered) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; len(rest) > 0; {
		switch b := rest[0]; {
		case c.left > 0 && c.shift < 0:
			n := min(c.left, len(rest))
			c.left -= n
			rest = rest[n:]
			continue
		case c.shift < 0:
			c.shift = 0
			if b>>4 == packets.Publish {
				c.published.Add(1)
			}
		default:
			c.left |= int(b&0x7f) << c.shift
			if c.shift += 7; b&0x80 == 0 {
				c.shift = -1
			}
		}
		rest = rest[1:]
	}
	return c.Conn.Write(p)
}

// fanOut is a reliable writer whose samples all of many readers get.
type fanOut struct {
	w         *Writer[block]
	readers   int
	published atomic.Int64 // by all participants, to the broker
	came      atomic.Int64 // by all readers
	written   int64
}

func newFanOut(b *testing.B, readers int) *fanOut {
	b.Helper()
	f := &fanOut{readers: readers}
	url := startBroker(b)
	dial := WithDialer(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "mqtt://"))
		return &metered{Conn: conn, published: &f.published, shift: -1}, err
	})
	q := WithQoS(QoS{Reliability: Reliable, History: KeepAll, MaxBlocking: time.Minute})
	reading, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	b.Cleanup(func() { stop(); all.Wait() })
	for i := range readers {
		t, err := NewTopic[block](join(b, url, fmt.Sprint("to", i), dial), "fan")
		if err != nil {
			b.Fatal(err)
		}
		r, err := NewReader(b.Context(), t, q)
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			for range r.Samples(reading) {
				f.came.Add(1)
			}
		})
	}
	t, err := NewTopic[block](join(b, url, "from", dial), "fan")
	if err == nil {
		f.w, err = NewWriter(b.Context(), t, q)
	}
	if err == nil {
		err = f.w.WaitMatched(b.Context(), readers)
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// write writes n samples, with a pause after each, of that length or as random as the
// events of a Poisson process.
func (f *fanOut) write(b *testing.B, n int, pause time.Duration, random bool) {
	b.Helper()
	v := block{make([]byte, 64)}
	for range n {
		if err := f.w.Write(b.Context(), v); err != nil {
			b.Fatal(err)
		}
		f.written++
		switch {
		case random:
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(pause)))
		case pause > 0:
			time.Sleep(pause)
		}
	}
}

// arrive waits until every reader has everything.
func (f *fanOut) arrive() {
	for f.came.Load() < f.written*int64(f.readers) {
		time.Sleep(time.Millisecond)
	}
}

// settle waits until every reader has everything and has said so.
func (f *fanOut) settle(b *testing.B) {
	b.Helper()
	if err := f.w.WaitAcked(b.Context()); err != nil {
		b.Fatal(err)
	}
	f.arrive()
}

// BenchmarkFanOut counts what a reliable keep-all writer and its hundred readers, a
// participant each, publish to the broker for each sample until all have it: the sample
// itself, heartbeats, acknowledgements and repairs. What it costs to wait then until all
// have acknowledged the last one is told apart.
func BenchmarkFanOut(b *testing.B) {
	for _, c := range []struct {
		name   string
		n      int
		pause  time.Duration
		random bool
	}{
		{"unpaused", 10000, 0, false},
		{"500 a second", 10000, 2 * time.Millisecond, false},
		{"20 a second", 400, 50 * time.Millisecond, false},
		{"2 a second", 60, time.Second / 2, false},
		{"10 a second at random", 400, 100 * time.Millisecond, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := newFanOut(b, 100)
			f.write(b, 1, 0, false)
			f.settle(b)
			f.write(b, 10, c.pause, c.random) // it knows the pace
			f.settle(b)
			time.Sleep(time.Second) // what is on its way is not of the samples to come
			written, published, settling := f.written, int64(0), int64(0)
			for b.Loop() {
				before := f.published.Load()
				f.write(b, c.n, c.pause, c.random)
				f.arrive()
				there := f.published.Load()
				f.settle(b)
				published, settling = published+there-before, settling+f.published.Load()-there
			}
			n := f.written - written
			b.ReportMetric(float64(published)/float64(n), "published/write")
			b.ReportMetric(float64(settling)/float64(b.N), "published/WaitAcked")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}
