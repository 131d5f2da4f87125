package pubsub

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
)

// block is a sample with as many bytes of payload as a raw message.
type block struct{ Payload []byte }

// way is one way to get payloads from one client to another.
type way struct {
	name string
	open func(w *way, tb testing.TB)
	send func()      // returns when it may be called again
	came chan uint64 // how many the receiver has in all

	sent   uint64
	lost   uint64
	took   []time.Duration // for each burst
	allocs uint64
	cpu    time.Duration // of this process, with the broker if that is embedded
	twice  func() uint64 // how many came again; nil if nobody counts

	repeated uint64 // in all
}

// burst sends n payloads and waits until the receiver has them all. A broker may drop what
// the bare client is too slow for (mosquitto: max_queued_messages): a burst of which
// nothing comes any more has no time.
func (w *way) burst(n int) {
	began := time.Now()
	for range n {
		w.send()
	}
	w.sent += uint64(n)
	var came uint64
	for came < w.sent {
		select {
		case came = <-w.came:
		case <-time.After(10 * time.Second):
			w.lost += w.sent - came
			w.sent = came
			return
		}
	}
	w.took = append(w.took, time.Since(began))
}

// turn is many bursts of size n.
func (w *way) turn(bursts, n int) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processCPU()
	for range bursts {
		w.burst(n)
	}
	w.cpu += processCPU() - began
	runtime.ReadMemStats(&after)
	w.allocs += after.Mallocs - before.Mallocs
}

// BenchmarkRawAndReliable compares Writer and Reader with the bare MQTT client:
// the same broker, payload and MQTT QoS 1 on both hops, and at most maxInFlight
// publishes that the broker has not acknowledged. A throughput burst is 5000 payloads
// and ends when the receiver has them all, decoded and taken from the reader; for
// latency each payload waits for the one before. The ways take turns within the run,
// so that what else the machine does hits all alike. They share one broker, and each has the
// process to itself in its turn, as in an application that has one of them: otherwise one
// collects the garbage of the others. Times are medians over bursts, "ratio" is ours over
// raw. "cpu-ratio" is that of the processor time of this process: with a broker in another
// process, that of both ends.
func BenchmarkRawAndReliable(b *testing.B) {
	for _, of := range []struct{ size, burst int }{{64, 5000}, {1 << 10, 5000}, {64 << 10, 500}, {MaxPayload - 1000, 50}} {
		b.Run(fmt.Sprintf("throughput/%dB", of.size), func(b *testing.B) { compareWays(b, of.size, 1, of.burst) })
		b.Run(fmt.Sprintf("latency/%dB", of.size), func(b *testing.B) { compareWays(b, of.size, of.burst/10, 1) })
	}
}

func compareWays(b *testing.B, size, bursts, n int) {
	url := startBroker(b)
	ways := []*way{
		{name: "raw", open: func(w *way, tb testing.TB) { rawWay(tb, w, url, size) }},
		{name: "plain", open: func(w *way, tb testing.TB) { reliableWay(tb, w, url, size) }},
		{name: "coalesced", open: func(w *way, tb testing.TB) {
			reliableWay(tb, w, url, size, WithCoalescing(5*time.Millisecond))
		}},
	}
	raw := ways[0]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for j := range ways {
			ways[(i+j)%len(ways)].turns(b, bursts, n)
		}
	}
	for _, w := range ways {
		if w.lost > 0 {
			b.ReportMetric(float64(w.lost), w.name+"-lost")
		}
		if len(w.took) == 0 {
			b.Fatalf("%s: every burst lost samples", w.name)
		}
		b.ReportMetric(float64(w.allocs)/float64(len(w.took)*n), w.name+"-allocs")
		ours, theirs := median(w.took).Seconds(), median(raw.took).Seconds()
		if n == 1 {
			b.ReportMetric(ours*1e6, w.name+"-µs")
		} else {
			b.ReportMetric(float64(n)/ours, w.name+"/s")
			ours, theirs = theirs, ours
		}
		if w != raw {
			b.ReportMetric(ours/theirs, w.name+"-ratio")
			b.ReportMetric(w.cpu.Seconds()/raw.cpu.Seconds(), w.name+"-cpu-ratio")
			b.ReportMetric(float64(w.repeated)/float64(len(w.took)*n), w.name+"-repeated")
		}
	}
}

// turns opens a way, lets it take some turns, and leaves nothing of it behind.
func (w *way) turns(b *testing.B, bursts, n int) {
	s := &scope{B: b}
	s.ctx, s.cancel = context.WithCancel(b.Context())
	defer s.end()
	w.sent = 0
	w.open(w, s)
	kept := *w
	w.turn(1, max(n, bursts)) // the first messages are not measured
	w.took, w.allocs, w.cpu = kept.took, kept.allocs, kept.cpu
	for range 5 {
		w.turn(bursts, n)
	}
	if w.twice != nil {
		w.repeated += w.twice()
	}
}

// scope is a part of a benchmark that ends before it.
type scope struct {
	*testing.B
	ctx    context.Context
	cancel context.CancelFunc
	ends   []func()
}

func (s *scope) Context() context.Context { return s.ctx }

func (s *scope) Cleanup(f func()) { s.ends = append(s.ends, f) }

func (s *scope) end() {
	s.cancel()
	for _, f := range slices.Backward(s.ends) {
		f()
	}
	for range 2 { // the second frees what pools have kept over the first
		runtime.GC()
	}
}

// rawWay waits for the oldest acknowledgement once the window is full, as a lane does.
func rawWay(b testing.TB, w *way, url string, size int) {
	w.came = make(chan uint64, 1)
	from, to := bareClient(b, url, "raw-from"), bareClient(b, url, "raw-to")
	var n uint64
	to.Subscribe("raw", 1, func(mqtt.Client, mqtt.Message) { n++; w.tell(n) }).Wait()
	payload := make([]byte, size)
	var window []mqtt.Token
	w.send = func() {
		for len(window) >= connection.MaxInFlight || len(window)*size >= connection.MaxFlightBytes {
			window[0].Wait()
			window = window[1:]
		}
		window = append(window, from.Publish("raw", 1, false, payload))
	}
}

// tell replaces what the sender has not looked at.
func (w *way) tell(n uint64) {
	select {
	case <-w.came:
	default:
	}
	w.came <- n
}

func reliableWay(b testing.TB, w *way, url string, size int, opts ...EndpointOption) {
	ctx, name := b.Context(), w.name
	w.came = make(chan uint64, 1)
	opts = append(opts, WithQoS(QoS{Reliability: Reliable, History: KeepAll}))
	from, err := NewTopic[block](join(b, url, name+"-from"), name)
	if err != nil {
		b.Fatal(err)
	}
	p := join(b, url, name+"-to")
	w.twice = p.counters.dropped[drop.Duplicate].Load
	to, err := NewTopic[block](p, name)
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewReader(ctx, to, WithQoS(QoS{Reliability: Reliable, History: KeepAll}))
	if err != nil {
		b.Fatal(err)
	}
	wr, err := NewWriter(ctx, from, opts...)
	if err == nil {
		err = wr.WaitMatched(ctx, 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var n uint64
		for s, err := range r.Samples(reading) {
			if err != nil || len(s.Data.Payload) != size {
				b.Errorf("sample %d: %d bytes, %v", n, len(s.Data.Payload), err)
				return
			}
			n++
			w.tell(n)
		}
	}()
	b.Cleanup(func() { stop(); <-done })
	v := block{make([]byte, size)}
	w.send = func() {
		if err := wr.Write(ctx, v); err != nil {
			b.Fatal(err)
		}
	}
}
