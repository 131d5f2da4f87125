package pubsub

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/wire"
	"padme/tests/cable"
)

// gathering is a coalescing writer whose first sample is on the way, unacknowledged,
// and a reader that has it.
type gathering struct {
	*cable.Cable
	w *Writer[pose]
	r *Reader[pose]
}

const gatherFor = 40 * time.Millisecond

func startGathering(t *testing.T, d *world, q QoS) *gathering {
	t.Helper()
	g := &gathering{Cable: cable.New(d.b.Dial)}
	a := join(t, "", "a", WithDialer(g.Dial))
	t.Cleanup(g.Release)
	var err error
	if g.w, err = NewWriter(testContext(t), topicOf[pose](t, a, "p"), WithQoS(q), WithCoalescing(gatherFor)); err != nil {
		t.Fatal(err)
	}
	g.r = readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{Reliability: q.Reliability, History: KeepAll})
	awaitReaders(t, g.w, 1)
	pass(time.Second)
	g.HoldReceived()
	write(t, g.w, pose{X: 0})
	g.expect(t, 0, 0)
	return g
}

// expect lets time pass and tells what the reader must have got then.
func (g *gathering) expect(t *testing.T, after time.Duration, want ...float64) {
	t.Helper()
	pass(after)
	if got := values(g.r); !slices.Equal(got, want) {
		t.Errorf("after %v the reader got %v, want %v", after, got, want)
	}
}

var reliably = QoS{Reliability: Reliable, History: KeepAll}

func TestASampleGathersForTheDelayAtMost(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, reliably)
		write(t, g.w, pose{X: 1})
		g.expect(t, gatherFor/2)
		write(t, g.w, pose{X: 2}) // it does not begin the delay again
		g.expect(t, gatherFor/2-1)
		g.expect(t, 1, 1, 2)
		write(t, g.w, pose{X: 3}) // this one has a delay of its own
		g.expect(t, gatherFor-1)
		g.expect(t, 1, 3)
	})
}

func TestSamplesGatherUntilTheBrokerHasTheOthers(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, reliably)
		write(t, g.w, pose{X: 1})
		g.expect(t, gatherFor/2)
		g.Release()
		g.expect(t, 0, 1)
		write(t, g.w, pose{X: 2}) // nothing is on the way any more
		g.expect(t, 0, 2)
	})
}

func TestAFullBundleDoesNotWait(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, reliably)
		write(t, g.w, pose{X: 1})
		write(t, g.w, pose{X: 2, Tags: []string{strings.Repeat("x", connection.MaxBundle-300)}})
		g.expect(t, 0)
		write(t, g.w, pose{X: 3, Tags: []string{strings.Repeat("x", 200)}}) // it has no room with them
		g.expect(t, 0, 1, 2)
		g.expect(t, gatherFor, 3)
	})
}

func TestWhoWaitsForReadersEndsTheGathering(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, reliably)
		write(t, g.w, pose{X: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.w.WaitAcked(ctx); err == nil {
			t.Error("acknowledged through a valve that is shut")
		}
		g.expect(t, 0, 1)
	})
}

func TestClosingEndsTheGathering(t *testing.T) {
	for name, end := range map[string]func(*gathering, context.Context) error{
		"writer":      func(g *gathering, ctx context.Context) error { return g.w.Close(ctx) },
		"participant": func(g *gathering, ctx context.Context) error { return g.w.topic.p.Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				g := startGathering(t, d, reliably)
				write(t, g.w, pose{X: 1})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- end(g, ctx) }()
				g.expect(t, time.Millisecond, 1)
				g.Release()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAWriterWithoutRoomEndsTheGathering(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 3})
		write(t, g.w, pose{X: 1})
		write(t, g.w, pose{X: 2})
		if err := g.w.TryWrite(pose{X: 3}); err == nil {
			t.Error("there was room for a fourth sample of three")
		}
		g.expect(t, 0, 1, 2)
		g.Release()
		write(t, g.w, pose{X: 3})
		g.expect(t, gatherFor, 3)
	})
}

func TestWhatGathersIsRepairedAfterALoss(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		c := cable.New(d.b.Dial)
		v := cable.New(c.Dial)
		a := join(t, "", "a", WithDialer(v.Dial))
		w, err := NewWriter(testContext(t), topicOf[pose](t, a, "p"), WithQoS(reliably), WithCoalescing(gatherFor))
		if err != nil {
			t.Fatal(err)
		}
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), reliably)
		awaitReaders(t, w, 1)
		v.HoldReceived()
		var want []float64
		for n := range 5 {
			write(t, w, pose{X: float64(n)})
			want = append(want, float64(n))
		}
		c.Cut()
		v.Release()
		pass(time.Second)
		write(t, w, pose{X: 5}) // offline
		c.Restore()
		pass(20 * time.Second)
		if got := values(r); !slices.Equal(got, append(want, 5)) {
			t.Errorf("got %v", got)
		}
	})
}

// Readers of every kind, and observers, see the same of a writer that coalesces as of
// one that does not, which writes the same at the same times.
func TestReadersSeeNoDifference(t *testing.T) {
	for name, change := range map[string]func(*QoS){
		"reliable":        func(*QoS) {},
		"best effort":     func(q *QoS) { q.Reliability = BestEffort },
		"transient-local": func(q *QoS) { q.Durability = TransientLocal },
		"two partitions":  func(q *QoS) { q.Partition = []string{"one", "two"} },
		"lifespan":        func(q *QoS) { q.Lifespan = 30 * time.Millisecond },
		"exclusive":       func(q *QoS) { q.Exclusive, q.Strength = true, 3 },
		"by source time":  func(q *QoS) { q.BySourceTime = true },
		"deadline":        func(q *QoS) { q.Deadline = time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			q := reliably
			change(&q)
			for _, narrow := range []bool{false, true} {
				virtually(t, func(t *testing.T, d *world) {
					single := observe(t, d, "single", q, narrow, WithCoalescing(0))
					bundled := observe(t, d, "bundled", q, narrow, WithCoalescing(gatherFor))
					if single.messages != len(single.seen[0]) {
						t.Errorf("%d samples came in %d messages", len(single.seen[0]), single.messages)
					}
					if 2*bundled.messages > single.messages && !narrow {
						t.Errorf("coalescing made %d messages of %d", bundled.messages, single.messages)
					}
					for i := range single.seen {
						if !slices.Equal(single.seen[i], bundled.seen[i]) || len(single.seen[i]) == 0 {
							t.Errorf("narrow %v: %d sees %v without and %v with coalescing", narrow, i, single.seen[i], bundled.seen[i])
						}
					}
				})
			}
		})
	}
}

// sightings are what came of a writer.
type sightings struct {
	messages int
	seen     [][]string // by observer
}

func observe(t *testing.T, d *world, domain string, q QoS, narrow bool, opts ...EndpointOption) (out sightings) {
	t.Helper()
	v := cable.New(d.b.Dial)
	a, b := join(t, "", "a", WithDialer(v.Dial), WithDomain(domain)), join(t, "", "b", WithDialer(d.b.Dial), WithDomain(domain))
	w, err := NewWriter(testContext(t), topicOf[pose](t, a, "p"), append(opts, WithQoS(q))...)
	if err != nil {
		t.Fatal(err)
	}
	observed := map[string][]string{} // by partition: those of two have no order
	if _, err := b.ObserveSamples(testContext(t), "p", func(s ObservedSample) {
		observed[s.Partition] = append(observed[s.Partition], fmt.Sprint(s.Partition, s.Key, s.Sequence, s.Kind, len(s.Body), s.Codec))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SubscribeRaw(testContext(t), Main, []string{"data", "+", "p", "+", "a", "+"}, func(m RawMessage) { out.messages++ }); err != nil {
		t.Fatal(err)
	}
	wanted := QoS{Reliability: q.Reliability, History: KeepAll, Exclusive: q.Exclusive, BySourceTime: q.BySourceTime, Partition: q.Partition, Deadline: q.Deadline, Durability: q.Durability}
	slow := wanted
	slow.TimeBasedFilter = 100 * time.Millisecond
	kinds := [][]EndpointOption{
		{WithQoS(wanted)},
		{WithQoS(slow)},
		{WithQoS(wanted), WithFilter(func(p pose) bool { return int(p.X)%3 > 0 })},
	}
	if narrow {
		kinds = append(kinds, []EndpointOption{WithQoS(wanted), WithInstance(pose{Robot: "r.1"})})
	}
	var readers []*Reader[pose]
	for _, of := range kinds {
		r, err := NewReader(testContext(t), topicOf[pose](t, b, "p"), of...)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	awaitReaders(t, w, len(readers))
	pass(time.Second)
	for n := range 90 {
		switch n % 30 {
		case 0:
			v.HoldReceived()
		case 29:
			v.Release()
			pass(gatherFor)
		}
		p := pose{Robot: fmt.Sprintf("r.%d", n/5%3), X: float64(n)}
		do := w.Write
		switch n % 20 {
		case 17:
			do = w.Dispose
		case 19:
			do = w.Unregister
		}
		if err := do(testContext(t), p); err != nil {
			t.Fatal(err)
		}
	}
	v.Release()
	pass(gatherFor)
	var all []string
	for _, partition := range slices.Sorted(maps.Keys(observed)) {
		all = append(all, observed[partition]...)
	}
	out.seen = append(out.seen, all)
	for _, r := range readers {
		var saw []string
		for _, s := range r.Take(1000) {
			saw = append(saw, fmt.Sprint(s.Info.Key, s.Info.Sequence, s.Info.Valid, s.Info.State, s.Info.DisposedGeneration, s.Data.X))
		}
		out.seen = append(out.seen, saw)
	}
	return out
}

// What a connection for samples has taken along is not on the way any more, even if
// there is no other one yet.
func TestSamplesAreRepairedWithoutAConnectionOfTheirOwn(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		var mu sync.Mutex
		var conns []net.Conn
		main, data := cable.New(d.b.Dial), cable.New(d.b.Dial)
		a := join(t, "", "a", WithDialer(func(ctx context.Context) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(conns) == 2 {
				return nil, ErrUnreachable
			}
			conn, err := []*cable.Cable{main, data}[len(conns)].Dial(ctx)
			conns = append(conns, conn)
			return conn, err
		}))
		w, err := NewWriter(testContext(t), topicOf[pose](t, a, "p"), WithQoS(reliably), WithCoalescing(gatherFor))
		if err != nil {
			t.Fatal(err)
		}
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p"), reliably)
		awaitReaders(t, w, 1)
		data.HoldReceived()
		write(t, w, pose{X: 1})
		pass(0)
		write(t, w, pose{X: 2})
		mu.Lock()
		conns[1].Close()
		mu.Unlock()
		data.Release()
		pass(0)
		write(t, w, pose{X: 3})
		pass(5 * time.Second)
		if got := values(r); !slices.Equal(got, []float64{1, 2, 3}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestCoalescedSamplesArriveInOrder(t *testing.T) {
	url := startBroker(t)
	for _, q := range []QoS{reliably, {History: KeepAll}} {
		t.Run(fmt.Sprint(q.Reliability), func(t *testing.T) {
			a, b := join(t, url, "a"), join(t, url, "b")
			w, err := NewWriter(testContext(t), topicOf[pose](t, a, "p"), WithQoS(q), WithCoalescing(gatherFor))
			if err != nil {
				t.Fatal(err)
			}
			r := readerOf(t, topicOf[pose](t, b, "p"), q)
			awaitReaders(t, w, 1)
			for i := range 500 {
				write(t, w, pose{Robot: fmt.Sprintf("r.%d", i%3), X: float64(i)})
			}
			for i, s := range collect(t, r, 500) {
				if s.Data.X != float64(i) || s.Info.Key != s.Data.Robot || s.Info.Sequence != uint64(i+1) {
					t.Fatalf("sample %d: %+v", i, s)
				}
			}
			if err := w.WaitAcked(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// An instance may be called what the only one of a topic without a key is.
func TestAnInstanceNamedLikeNoneSharesAMessage(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, reliably)
		write(t, g.w, pose{Robot: "a", X: 1})
		write(t, g.w, pose{Robot: noKey, X: 2})
		write(t, g.w, pose{Robot: "b", X: 3})
		g.expect(t, gatherFor, 1, 2, 3)
	})
}

// A heartbeat is not held up by what gathers, and the writer does not hold any more
// what it has replaced: that comes all the same.
func TestWhatGathersIsNotGivenUp(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, QoS{Reliability: Reliable, Depth: 1})
		for x := range 3 {
			write(t, g.w, pose{X: float64(x + 1)})
		}
		g.w.send.Handle(wire.GUID(g.r.GUID()), &wire.Repair{Op: wire.OpAck, B: 1}) // which asks for a heartbeat
		g.expect(t, gatherFor/2)
		g.expect(t, gatherFor, 1, 2, 3)
		if lost := told[SampleLost](g.r.ep.events); len(lost) > 0 {
			t.Errorf("told %v", lost)
		}
	})
}

func TestWhatIsTooLargeForABundleDoesNotWait(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		g := startGathering(t, d, reliably)
		write(t, g.w, pose{X: 1, Tags: []string{strings.Repeat("x", connection.MaxBundle)}})
		g.expect(t, 0, 1)
		write(t, g.w, pose{X: 2})
		g.expect(t, gatherFor-1)
		g.expect(t, 1, 2)
	})
}

// What has an end or is due does not gather for as long as that.
func TestPoliciesOfTimeLeaveLessForGathering(t *testing.T) {
	for name, q := range map[string]QoS{
		"lifespan": {Reliability: Reliable, History: KeepAll, Lifespan: gatherFor / 2},
		"deadline": {Reliability: Reliable, History: KeepAll, Deadline: gatherFor / 2},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				g := startGathering(t, d, q)
				write(t, g.w, pose{X: 1})
				g.expect(t, gatherFor/4, 1)
			})
		})
	}
}
