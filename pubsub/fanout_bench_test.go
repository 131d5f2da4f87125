package pubsub

import (
	"context"
	"fmt"
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

// write writes n samples, with a pause after each.
func (f *fanOut) write(b *testing.B, n int, pause time.Duration) {
	b.Helper()
	v := block{make([]byte, 64)}
	for range n {
		if err := f.w.Write(b.Context(), v); err != nil {
			b.Fatal(err)
		}
		f.written++
		if pause > 0 {
			time.Sleep(pause)
		}
	}
}

// settle waits until every reader has everything and has said so.
func (f *fanOut) settle(b *testing.B) {
	b.Helper()
	if err := f.w.WaitAcked(b.Context()); err != nil {
		b.Fatal(err)
	}
	for f.came.Load() < f.written*int64(f.readers) {
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkFanOut counts what a reliable keep-all writer and its hundred readers, a
// participant each, publish to the broker for each sample: the sample itself, heartbeats,
// acknowledgements and repairs, those after the last sample included.
func BenchmarkFanOut(b *testing.B) {
	for _, c := range []struct {
		name  string
		n     int
		pause time.Duration
	}{{"unpaused", 10000, 0}, {"500 a second", 10000, 2 * time.Millisecond}, {"20 a second", 100, 50 * time.Millisecond}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFanOut(b, 100)
			f.write(b, 1, 0)
			f.settle(b)
			time.Sleep(time.Second) // what is on its way is not of the samples to come
			before, written := f.published.Load(), f.written
			for b.Loop() {
				f.write(b, c.n, c.pause)
				f.settle(b)
			}
			n := f.written - written
			b.ReportMetric(float64(f.published.Load()-before)/float64(n), "published/write")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}
