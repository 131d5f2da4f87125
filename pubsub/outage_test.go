package pubsub

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// A writer without pause whose reader was away gets its speed back: what came early is
// kept, and nothing waits for a timer.
func TestThroughputRecoversFromAnOutage(t *testing.T) {
	const limit = 2048
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: limit, MaxBlocking: time.Minute}
		a := d.join("a")
		b, cable := d.joinBy("b")
		w, r := writerOf(t, topicOf[block](t, a, "p"), q), readerOf(t, topicOf[block](t, b, "p"), q)
		awaitReaders(t, w, 1)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		taken, written, next := 0, 0, byte(0)
		go func() {
			for s := range r.Samples(ctx) {
				if s.Data.Payload[0] != next {
					t.Errorf("sample %d begins with %d", taken, s.Data.Payload[0])
					stop()
				}
				taken, next = taken+1, next+1
			}
		}()
		more := func(n int) {
			for range n {
				v := block{make([]byte, 64)}
				v.Payload[0] = byte(written)
				if err := w.Write(ctx, v); err != nil {
					t.Fatal(err)
				}
				written++
			}
		}
		more(limit / 2)
		pass(time.Second)
		cable.Cut()
		more(limit) // as many as fit
		pass(3 * time.Second)
		cable.Restore()
		if _, err := b.exchange.data.Online(ctx); err != nil {
			t.Fatal(err)
		}
		again := countRepairs(t, d.join("c"), "a", "b")
		more(4 * limit)
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if taken != written || again.Load() > 3*limit/2 {
			t.Errorf("%d of %d samples arrived, %d were sent again", taken, written, again.Load())
		}
		if lost := told[SampleLost](r.ep.events); len(lost) > 0 {
			t.Error(lost)
		}
		stop()
	})
}

// countRepairs counts the samples that one participant sends another again; p listens.
func countRepairs(t *testing.T, p *Participant, from, to string) *atomic.Int64 {
	var n atomic.Int64
	stop, err := p.SubscribeRaw(testContext(t), Main, []string{"node", to, from}, func(m RawMessage) {
		var e wire.Envelope
		if err := wire.Parse(m.Payload, &e); err == nil {
			if m, err := wire.ParseRepair(e.Body); err == nil && m.Op == wire.OpSample {
				n.Add(1)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &n
}

// Who makes a writer or reader while the broker is away learns what was waited for.
func TestAnOutageIsNamedByWhatWaitsForItsEnd(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		p, c := d.joinBy("p")
		topic := topicOf[pose](t, p, "t")
		w, r := writerOf(t, topic, QoS{}), readerOf(t, topic, QoS{})
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		if err := w.WaitMatched(soon(), 2); err == nil || err.Error() != `pubsub: 1 of 2 readers of topic "t" match: context deadline exceeded` {
			t.Error(err)
		}
		c.Cut()
		pass(time.Second)
		for name, wait := range map[string]func(context.Context) error{
			"NewWriter":          func(ctx context.Context) error { _, err := NewWriter(ctx, topic); return err },
			"NewReader":          func(ctx context.Context) error { _, err := NewReader(ctx, topic); return err },
			"Endpoints":          func(ctx context.Context) error { _, err := p.Endpoints(ctx); return err },
			"SetQoS":             func(ctx context.Context) error { return r.SetQoS(ctx, QoS{Partition: []string{"hall"}}) },
			"Writer.WaitMatched": func(ctx context.Context) error { return w.WaitMatched(ctx, 9) },
			"Reader.WaitMatched": func(ctx context.Context) error { return r.WaitMatched(ctx, 9) },
		} {
			if err := wait(soon()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no connection to") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A context that has ended before the call is no fault of the network.
func TestACanceledContextIsNamedAsSuch(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		p, _ := d.joinBy("p")
		topic := topicOf[pose](t, p, "t")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for kind, open := range map[string]func() error{
			"writer": func() error { _, err := NewWriter(ctx, topic); return err },
			"reader": func() error { _, err := NewReader(ctx, topic); return err },
		} {
			want := `pubsub: ` + kind + ` of topic "t": context canceled`
			if err := open(); !errors.Is(err, context.Canceled) || err.Error() != want {
				t.Errorf("%v, not %s", err, want)
			}
		}
	})
}
