//go:build linux

package hostile

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/poll"
)

// honest are two members that take a lock in turns all the time.
type honest struct {
	node       *node
	alice, bob *pubsub.Participant
	metrics    *prometheus.Registry // of both, not of the node
	entries    atomic.Int64

	mu    sync.Mutex
	waits []time.Duration // for each entry since they were last measured
	fence uint64
	lies  []string // what must never be
	who   string   // is inside
}

func (n *node) join(t *testing.T, user string, opts ...pubsub.Option) *pubsub.Participant {
	t.Helper()
	p, err := pubsub.Join(t.Context(), n.url(), user, append(opts, n.credentials(user)...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// startHonest has them work until the test ends.
func startHonest(t *testing.T, n *node) *honest {
	t.Helper()
	h := &honest{node: n, metrics: prometheus.NewRegistry()}
	h.alice = n.join(t, "alice", pubsub.WithMetrics(h.metrics))
	h.bob = n.join(t, "bob", pubsub.WithMetrics(h.metrics))
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() { cancel(); working.Wait() })
	for _, p := range []*pubsub.Participant{h.alice, h.bob} {
		topic, err := qosmutex.Open(t.Context(), p, "crane", qosmutex.WithMetrics(h.metrics))
		if err != nil {
			t.Fatal(err)
		}
		working.Go(func() {
			h.work(ctx, topic, p.ID())
			_ = topic.Close(context.Background())
		})
	}
	return h
}

func (h *honest) work(ctx context.Context, topic *qosmutex.Topic, who string) {
	for ctx.Err() == nil {
		asked := time.Now()
		hold, err := topic.Lock(ctx, "hook")
		if err != nil {
			if !errors.Is(err, qosmutex.ErrCanceled) {
				h.lie(who + ": " + err.Error())
				return
			}
			continue
		}
		h.enter(who, hold, time.Since(asked))
		h.leave(who)
		if err := hold.Unlock(); err != nil {
			h.lie(who + ": " + err.Error())
		}
	}
}

func (h *honest) enter(who string, hold *qosmutex.Hold, waited time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = append(h.waits, waited)
	if h.who != "" {
		h.lies = append(h.lies, who+" and "+h.who+" are inside together")
	}
	if hold.Fence() <= h.fence {
		h.lies = append(h.lies, who+" has a fence of the past")
	}
	h.who, h.fence = who, hold.Fence()
}

func (h *honest) leave(who string) {
	h.mu.Lock()
	h.who = ""
	h.mu.Unlock()
	h.entries.Add(1)
}

func (h *honest) lie(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lies = append(h.lies, s)
}

// goOn demands that locks are served, and were always served one at a time.
func (h *honest) goOn(t *testing.T) {
	t.Helper()
	before := h.entries.Load()
	poll.Within(t, patience, "twenty more entries", func() bool { return h.entries.Load() >= before+20 })
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lies {
		t.Error(l)
	}
}

// counted adds up a counter of the honest members by name and one label value.
func (h *honest) counted(t *testing.T, name, label string) (total float64) {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if f.GetName() == name && l.GetValue() == label {
					total += m.GetCounter().GetValue()
				}
			}
		}
	}
	return total
}
