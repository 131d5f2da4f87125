package qosmutex

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"padme/pubsub"
)

// BenchmarkUncontended is Lock and Unlock of a free resource: at the root
// without, at a member with a round trip to the root.
func BenchmarkUncontended(b *testing.B) {
	for _, events := range []bool{false, true} {
		root, members := group(b, startBroker(b, "127.0.0.1:0").URL(), "t", 1, WithTiming(LAN()), WithEvents(events))
		for _, topic := range []*Topic{root, members[0]} {
			b.Run(fmt.Sprintf("%s/events=%v", topic.self.ID, events), func(b *testing.B) {
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					h, err := topic.Lock(ctx, "crane")
					if err == nil {
						err = h.Unlock(ctx)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkHandOver has two children of the root contend for a resource, and
// measures from one's Unlock to the other's return from Lock: a release to the
// root and a reply from it. Beside it, in the same run and on the same broker,
// one raw message from participant to participant: two of those are the least
// that a hand-over can take.
func BenchmarkHandOver(b *testing.B) {
	for _, at := range []string{"tcp", "broker"} {
		b.Run("root="+at, func(b *testing.B) {
			server := startBroker(b, "127.0.0.1:0")
			var opts []pubsub.Option
			if at == "broker" {
				opts = append(opts, pubsub.WithDialer(server.Dial))
			}
			open(b, join(b, server.URL(), "root", opts...), "t", Found(), WithResources("crane"), WithNodePriority(0), WithTiming(LAN()))
			p, q := join(b, server.URL(), "p"), join(b, server.URL(), "q")
			topics := []*Topic{open(b, p, "t", WithTiming(LAN())), open(b, q, "t", WithTiming(LAN()))}
			measureHandOver(b, topics, median(oneWay(b, p, q, 5000)))
		})
	}
}

func measureHandOver(b *testing.B, topics []*Topic, raw time.Duration) {
	delays := make([]time.Duration, 0, b.N)
	ctx := testContext(b)
	held, err := topics[0].Lock(ctx, "crane")
	if err != nil {
		b.Fatal(err)
	}
	next := make(chan *Hold)
	entered := make(chan time.Time, 1)
	ask := make(chan *Topic)
	go func() {
		for topic := range ask {
			h, err := topic.Lock(ctx, "crane")
			entered <- time.Now()
			if err != nil {
				b.Error(err)
			}
			next <- h
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		waiter := topics[(i+1)%2]
		ask <- waiter
		b.StopTimer()
		time.Sleep(150 * time.Microsecond) // the request reaches the root
		b.StartTimer()
		left := time.Now()
		if err := held.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
		delays = append(delays, (<-entered).Sub(left))
		held = <-next
	}
	b.StopTimer()
	close(ask)
	unlock(b, held)
	m := median(delays)
	b.ReportMetric(float64(m.Nanoseconds())/1e3, "p50-µs/handover")
	b.ReportMetric(float64(raw.Nanoseconds())/1e3, "p50-µs/raw")
	b.ReportMetric(float64(m)/float64(raw), "raw-messages/handover")
}

// oneWay measures raw messages from p to q over the broker, one at a time.
func oneWay(b *testing.B, p, q *pubsub.Participant, n int) []time.Duration {
	arrived := make(chan time.Time, 1)
	stop, err := q.SubscribeRaw(testContext(b), []string{"raw", "bench"}, func(pubsub.RawMessage) { arrived <- time.Now() })
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	delays := make([]time.Duration, 0, n)
	payload := make([]byte, 64)
	for range n {
		sent := time.Now()
		if err := p.PublishRaw(pubsub.Main, []string{"raw", "bench"}, payload, false); err != nil {
			b.Fatal(err)
		}
		delays = append(delays, (<-arrived).Sub(sent))
		time.Sleep(20 * time.Microsecond)
	}
	return delays
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}

// BenchmarkIdleMember is the memory of an open topic beside its participant and
// the participant's MQTT client.
func BenchmarkIdleMember(b *testing.B) {
	const members = 50
	for b.Loop() {
		server := startBroker(b, "127.0.0.1:0")
		var participants []*pubsub.Participant
		for i := range members {
			participants = append(participants, join(b, server.URL(), fmt.Sprint("p", i)))
		}
		open(b, join(b, server.URL(), "root"), "t", Found(), WithResources("crane"), WithNodePriority(0), WithTiming(LAN()))
		before, goroutines := heap(), runtime.NumGoroutine()
		for _, p := range participants {
			open(b, p, "t", WithTiming(LAN()))
		}
		b.ReportMetric(float64(heap()-before)/members, "B/member")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/members, "goroutines/member")
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
