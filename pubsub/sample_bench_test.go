package pubsub

import (
	"testing"
	"time"
)

// BenchmarkSample is the way of a sample from Write's core to the cache of a
// reader, without network: what the policies cost a writer and a reader.
func BenchmarkSample(b *testing.B) {
	for _, c := range []struct {
		name string
		q    QoS
	}{
		{"best effort", QoS{}},
		{"reliable", QoS{Reliability: Reliable}},
		{"deadline", QoS{Deadline: time.Hour}},
		{"lifespan", QoS{Reliability: Reliable, Lifespan: time.Hour}},
		{"exclusive", QoS{Exclusive: true}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSample(b, c.q) })
	}
}

func benchmarkSample(b *testing.B, q QoS) {
	n := newLossyPair(q)
	n.match()
	for len(n.wire) > 0 {
		n.step(0, "deliver")
	}
	var sample []byte
	n.s.publish = func(_ string, payload []byte) error { sample = payload; return nil }
	e := envelope{schema: 7, body: make([]byte, 64), nanos: uint64(time.Now().UnixNano())}
	b.ReportAllocs()
	e.options.lifespan = uint64(q.Lifespan)
	for b.Loop() {
		if _, err := n.s.tryWrite("k", &e); err != nil {
			b.Fatal(err)
		}
		n.r.sample("k", "w/w1", sample)
		n.r.takeNext()
	}
}
