package brokers_test

import (
	"context"
	"encoding/json"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// An observer has a session of its own and takes no part. It follows what is
// published of the resource.
type observer struct {
	p     *pubsub.Participant
	heard atomic.Int64
	last  atomic.Pointer[qosmutex.State]
}

func observe(ctx context.Context, t *testing.T, url string) *observer {
	t.Helper()
	p := join(ctx, t, url, "observer")
	closing(t, "the observer", p.Close)
	o := &observer{p: p}
	t.Cleanup(o.subscribe(ctx, t))
	return o
}

// subscribe asks for the state by name: not every broker returns what is retained
// for a wildcard.
func (o *observer) subscribe(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	stop, err := o.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "yard", "crane", "state"}, func(m pubsub.RawMessage) {
		var state qosmutex.State
		if err := json.Unmarshal(m.Payload, &state); err != nil {
			t.Errorf("the state %q: %v", m.Payload, err)
			return
		}
		o.heard.Add(1)
		o.last.Store(&state)
	})
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

// free waits until the state says that nobody is inside, after the entry with this
// fence or a later one, whose hold was lost before it was looked at.
func (o *observer) free(t *testing.T, fence uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if last := o.last.Load(); last != nil && last.Holder == "" {
			if is, err := strconv.ParseUint(last.Fence, 10, 64); err == nil && is >= fence {
				return
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			t.Errorf("the last state heard was %+v, want nobody inside after fence %d", o.last.Load(), fence)
			return
		}
		// NATS may return the state before the last one, and not deliver the last
		// one, which was published meanwhile.
		stop := o.subscribe(ctx, t)
		defer stop()
	}
}
