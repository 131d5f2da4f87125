package qosmutex

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
)

// withEvents says whether the topic publishes this participant's lock events.
// Without them the published states do not tell that it is inside.
func withEvents(on bool) Option {
	return func(o *options) error {
		o.events = on
		return nil
	}
}

// BenchmarkUncontended is Lock and Unlock of a free resource: at the root
// without, at a member with a round trip to the root.
func BenchmarkUncontended(b *testing.B) {
	for _, events := range []bool{false, true} {
		root, members := group(b, startBroker(b, "127.0.0.1:0").URL(), "t", 1, WithTiming(LAN()), withEvents(events))
		unlock(b, lock(b, root, "crane")) // a new register grants nothing for a grace
		for _, topic := range []*Topic{root, members[0]} {
			b.Run(fmt.Sprintf("%s/events=%v", topic.self.ID, events), func(b *testing.B) {
				ctx := context.Background()
				b.ReportAllocs()
				for b.Loop() {
					h, err := topic.Lock(ctx, "crane")
					if err == nil {
						err = h.Unlock()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkEnterAgain is Lock and Unlock at a member that retains the token: one entry in
// RetainedFences asks the root.
func BenchmarkEnterAgain(b *testing.B) {
	for _, events := range []bool{false, true} {
		b.Run(fmt.Sprintf("events=%v", events), func(b *testing.B) {
			_, members := group(b, startBroker(b, "127.0.0.1:0").URL(), "t", 1, WithTiming(LAN()), withEvents(events), WithModels(models(b, "LFFR")))
			ctx := context.Background()
			again := func() {
				h, err := members[0].Lock(ctx, "crane")
				if err == nil {
					err = h.Unlock()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			again() // a new register grants nothing for a grace
			again()
			before := tokenMessages(members[0])
			b.ReportAllocs()
			for b.Loop() {
				again()
			}
			b.ReportMetric(float64(tokenMessages(members[0])-before)/float64(b.N), "messages/op")
		})
	}
}

// BenchmarkHandOver has two children of the root hand a resource to and fro, and
// measures from one's Unlock to the other's entry: a release to the root and a
// reply from it. The request of the next one has reached the root before, so that
// nothing else is on the way. Each hand-over is followed by two raw messages from
// participant to participant on the same broker, one at QoS 1 and one at QoS 0, as
// lock messages go: two of the latter are the least that a hand-over by the root can
// take, and one if the Release model is Direct.
func BenchmarkHandOver(b *testing.B) {
	for _, at := range []string{"tcp", "broker", "tcp/direct"} {
		for _, events := range []bool{true, false} {
			b.Run(fmt.Sprintf("root=%s/events=%v", at, events), func(b *testing.B) {
				release := Forward
				if at == "tcp/direct" {
					release = Direct
				}
				server := startEmbedded(b, "127.0.0.1:0")
				var opts []pubsub.Option
				if at == "broker" {
					opts = append(opts, pubsub.WithDialer(server.Dial))
				}
				root := join(b, server.URL(), "root", opts...)
				open(b, root, "t", Create(), WithResources("crane"), WithNodePriority(0), WithTiming(LAN()), withEvents(events),
					WithModels(Models{Release: release}))
				var topics []*Topic
				for _, id := range []string{"p", "q"} {
					topics = append(topics, open(b, join(b, server.URL(), id), "t", WithTiming(LAN()), withEvents(events)))
				}
				measureHandOver(b, topics, root, arrivals(b, root), []<-chan time.Time{arrivals(b, topics[0].p), arrivals(b, topics[1].p)})
			})
		}
	}
}

// arrivals tells when messages of the benchmark come to a participant.
func arrivals(b *testing.B, p *pubsub.Participant) <-chan time.Time {
	at := make(chan time.Time, 1)
	stop, err := p.Inbox("bench", func(pubsub.Message) { at <- time.Now() })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stop)
	return at
}

func measureHandOver(b *testing.B, topics []*Topic, root *pubsub.Participant, atRoot <-chan time.Time, at []<-chan time.Time) {
	var handOvers, raw1, raw0 []time.Duration
	payload := make([]byte, 64)
	send := func(send func(to, channel string, payload []byte) error, to string) time.Time {
		sent := time.Now()
		if err := send(to, "bench", payload); err != nil {
			b.Fatal(err)
		}
		return sent
	}
	ctx := testContext(b)
	held, err := topics[0].Lock(ctx, "crane")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		next := (i + 1) % 2
		h := &Hold{of: topics[next], resource: "crane", requested: time.Now(), parent: ctx}
		if err := topics[next].ask(h, new(request), false); err != nil {
			b.Fatal(err)
		}
		send(topics[next].p.Post, "root") // behind the request
		<-atRoot
		send(root.Post, topics[i%2].p.ID()) // behind the schedule, if there is one
		<-at[i%2]
		left := time.Now()
		if err := held.Unlock(); err != nil {
			b.Fatal(err)
		}
		<-h.ready
		handOvers = append(handOvers, time.Since(left))
		held = h
		last := topics[i%2].p
		sent := send(last.Send, topics[next].p.ID())
		raw1 = append(raw1, (<-at[next]).Sub(sent))
		sent = send(last.Post, topics[next].p.ID())
		raw0 = append(raw0, (<-at[next]).Sub(sent))
	}
	b.StopTimer()
	unlock(b, held)
	b.ReportMetric(float64(uncontended(b, topics[0]).Nanoseconds())/1e3, "µs/lock-unlock")
	h, r1, r0 := median(handOvers), median(raw1), median(raw0)
	b.ReportMetric(float64(h.Nanoseconds())/1e3, "µs/handover")
	b.ReportMetric(float64(r1.Nanoseconds())/1e3, "µs/raw-qos1")
	b.ReportMetric(float64(r0.Nanoseconds())/1e3, "µs/raw-qos0")
	b.ReportMetric(float64(h)/float64(r1), "handover/raw-qos1")
	b.ReportMetric(float64(h)/float64(r0), "handover/raw-qos0")
}

// uncontended is the median time of Lock and Unlock of a free resource.
func uncontended(b *testing.B, topic *Topic) time.Duration {
	var took []time.Duration
	for range 2000 {
		began := time.Now()
		unlock(b, lock(b, topic, "crane"))
		took = append(took, time.Since(began))
	}
	return median(took)
}

// BenchmarkContention has two children of the root lock in turn without a pause:
// while one's release is on its way, so is its next request.
func BenchmarkContention(b *testing.B) {
	server := startEmbedded(b, "127.0.0.1:0")
	open(b, join(b, server.URL(), "root", pubsub.WithDialer(server.Dial)), "t", Create(), WithResources("crane"), WithNodePriority(0), WithTiming(LAN()))
	ctx := testContext(b)
	var topics []*Topic
	for _, id := range []string{"p", "q"} {
		topics = append(topics, open(b, join(b, server.URL(), id), "t", WithTiming(LAN())))
	}
	unlock(b, lock(b, topics[0], "crane")) // a new register grants nothing for a grace
	b.ReportAllocs()
	b.ResetTimer()
	var entries atomic.Int64
	var wg sync.WaitGroup
	for _, topic := range topics {
		wg.Go(func() {
			for entries.Add(1) <= int64(b.N) {
				if h, err := topic.Lock(ctx, "crane"); err != nil || h.Unlock() != nil {
					b.Error("lock or unlock failed", err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
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
		open(b, join(b, server.URL(), "root"), "t", Create(), WithResources("crane"), WithNodePriority(0), WithTiming(LAN()))
		before, goroutines := inUse(), runtime.NumGoroutine()
		for _, p := range participants {
			open(b, p, "t", WithTiming(LAN()))
		}
		b.ReportMetric(float64(inUse()-before)/members, "B/member")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/members, "goroutines/member")
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
