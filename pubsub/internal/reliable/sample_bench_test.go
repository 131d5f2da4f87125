package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// BenchmarkSample is the way of a sample from Write's core to the cache of a
// reader, without network: what the policies cost a writer and a reader.
func BenchmarkSample(b *testing.B) {
	for _, c := range []struct {
		name string
		q    Policies
	}{
		{"best effort", Policies{}},
		{"reliable", Policies{Reliable: true}},
		{"deadline", Policies{Deadline: time.Hour}},
		{"lifespan", Policies{Reliable: true, Lifespan: time.Hour}},
		{"exclusive", Policies{Exclusive: true}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSample(b, c.q) })
	}
}

func benchmarkSample(b *testing.B, q Policies) {
	n := newLossyPair(q)
	n.match()
	for len(n.wire) > 0 {
		n.step(0, "deliver")
	}
	var sample []byte
	n.s.out.Publish = func(_, _ string, payload []byte, _ Sharing) error { sample = payload; return nil }
	e := wire.Envelope{Schema: 7, Body: make([]byte, 64), Nanos: uint64(time.Now().UnixNano())}
	b.ReportAllocs()
	e.Options.Lifespan = uint64(q.Lifespan)
	for b.Loop() {
		if err := n.s.TryWrite("k", &e); err != nil {
			b.Fatal(err)
		}
		n.r.Arrived("k", "w/w1", sample)
		n.r.TakeNext()
	}
}
