package papers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/tests/bubble"
	"padme/tests/papers/bench"
)

// TestPADMETableOverMQTT runs the scenario of TestPADMETable on the real stack: a
// broker, seven participants with an MQTT connection each, and the lock runtime.
// Time is virtual. Each leg to or from the broker takes t_m/2, so that a message
// takes t_m.
func TestPADMETableOverMQTT(t *testing.T) {
	for _, latency := range []protocol.Duration{protocol.Second, protocol.Second / 2} {
		for _, m := range protocol.AllModels() {
			t.Run(fmt.Sprintf("tm=%dms/%v", latency/protocol.Millisecond, m), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { tableOverMQTT(t, m, latency) })
			})
		}
	}
}

func tableOverMQTT(t *testing.T, m protocol.Models, latency protocol.Duration) {
	time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))) // nobody creates a topic in the past
	s := sim.PaperScenario(m, latency)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b, err := broker.Start(ctx, broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	topics, nodes := openTree(ctx, t, b, s, latency)
	before := counted(topics)
	var wg sync.WaitGroup
	entries := make([]int, len(topics))
	run, stop := context.WithTimeout(ctx, time.Duration(s.Duration))
	defer stop()
	for i, topic := range topics {
		wg.Go(func() {
			n, err := use(run, topic, latency)
			if err != nil {
				t.Errorf("participant %d: %v", i, err)
			}
			entries[i] = n
		})
	}
	time.Sleep(time.Duration(s.Duration) - time.Millisecond)
	sent := counted(topics) - before // without the withdrawals at the end
	<-run.Done()
	wg.Wait()
	total := 0
	for _, n := range entries {
		total += n
	}
	hold(t, m, latency, bench.PADMERow{
		High: entries[0], Medium: entries[1] + entries[2], Low: entries[3] + entries[4] + entries[5] + entries[6],
		PerEntry: float64(sent) / float64(total),
	})
	for i := len(topics) - 1; i >= 0; i-- {
		if err := topics[i].Close(ctx); err != nil {
			t.Errorf("closing topic %d: %v", i, err)
		}
		if err := nodes[i].Close(ctx); err != nil {
			t.Errorf("closing participant %d: %v", i, err)
		}
	}
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Duration(latency)) // what is still on the delayed connections
}

// openTree opens the lock topic for every participant of the scenario, each
// parent before its children.
func openTree(ctx context.Context, t *testing.T, b *broker.Broker, s sim.Scenario, latency protocol.Duration) (topics []*qosmutex.Topic, nodes []*pubsub.Participant) {
	start := time.Now()
	for i, p := range s.Participants {
		leg := time.Duration(latency) / 2
		node, err := pubsub.Join(ctx, "", p.ID, pubsub.WithDialer(delayed(b.Dial, leg)), pubsub.WithKeepAlive(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		opts := []qosmutex.Option{
			qosmutex.WithTiming(timingOf(s.Timing)), qosmutex.WithNodePriority(p.Priority), qosmutex.WithFanout(2),
			qosmutex.WithClock(func() time.Duration { return time.Since(start) }),
		}
		if i == 0 {
			opts = append(opts, qosmutex.Create(), qosmutex.WithResources(sim.PaperResource), qosmutex.WithModels(s.Settings.Models))
		} else {
			opts = append(opts, qosmutex.WithParent(p.Parent))
		}
		topic, err := qosmutex.Open(ctx, node, "paper", opts...)
		if err != nil {
			t.Fatal(err)
		}
		topics, nodes = append(topics, topic), append(nodes, node)
	}
	return topics, nodes
}

func timingOf(t protocol.Timing) qosmutex.Timing {
	return qosmutex.Timing{
		TTL: time.Duration(t.TTL), Heartbeat: time.Duration(t.Heartbeat), Drift: t.Drift,
		JoinWait: time.Duration(t.JoinWait), MoveAfter: time.Duration(t.MoveAfter), Hop: time.Duration(t.Hop),
	}
}

// use locks, holds for the second of the paper's critical section and thinks for
// the message transmit time, until the run is over. Both spans are a trifle
// short, so that an application acts before a message that arrives at the same
// instant, as in the simulation.
func use(ctx context.Context, topic *qosmutex.Topic, think protocol.Duration) (entries int, err error) {
	const trifle = time.Millisecond
	for {
		h, err := topic.Lock(ctx, sim.PaperResource)
		if ctx.Err() != nil {
			if h != nil {
				return entries, h.Unlock()
			}
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		entries++
		time.Sleep(time.Second - trifle)
		unlocked := make(chan error, 1)
		go func() { unlocked <- h.Unlock() }()
		time.Sleep(time.Duration(think) - trifle)
		if err := <-unlocked; err != nil {
			return entries, err
		}
	}
}

// counted sums the messages sent so far that the papers count.
func counted(topics []*qosmutex.Topic) (n uint64) {
	for _, t := range topics {
		for kind, sent := range t.Status().Counters.Sent {
			if protocol.Kind(kind).Counted() {
				n += sent
			}
		}
	}
	return n
}
