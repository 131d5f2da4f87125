package qosmutex

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
)

// told is a state as any client of the broker reads it.
type told struct {
	Resource, Status, Holder, Grantee, Via, Fence, Epoch, Root string
	Priority                                                   int64
	Queue                                                      []Waiter
	at                                                         time.Time // when it was heard
}

func (s told) fence() uint64 { return parseFence(s.Fence) }

// witness keeps every state of lock topic t that is published from now on.
type witness struct {
	p   *pubsub.Participant
	mu  sync.Mutex
	all []told
}

func (w *world) witness() *witness {
	w.t.Helper()
	p, _ := w.join("witness")
	o := &witness{p: p}
	_, err := p.SubscribeRaw(w.t.Context(), pubsub.Main, []string{"lock", "t", "+", "state"}, func(m pubsub.RawMessage) {
		s := told{at: time.Now()}
		if len(m.Payload) > 0 { // else it was cleared
			if err := json.Unmarshal(m.Payload, &s); err != nil {
				w.t.Errorf("%s: %v", m.Payload, err)
			}
		}
		s.Resource = m.Levels[2]
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, s)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (o *witness) close() { _ = o.p.Close(context.Background()) }

// of returns what was published of a resource.
func (o *witness) of(resource string) (of []told) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		if s.Resource == resource {
			of = append(of, s)
		}
	}
	return of
}

func (o *witness) last(resource string) (last told) {
	if all := o.of(resource); len(all) > 0 {
		last = all[len(all)-1]
	}
	return last
}

// falls returns the states whose fence is below that of an earlier one.
func (o *witness) falls(resource string) (falls []told) {
	highest := uint64(0)
	for _, s := range o.of(resource) {
		if s.Fence == "" {
			continue
		}
		if s.fence() < highest {
			falls = append(falls, s)
		}
		highest = max(highest, s.fence())
	}
	return falls
}

// tell publishes an event of crane.
func (o *witness) tell(t *testing.T, event, who string, fence uint64) {
	t.Helper()
	line := fmt.Sprintf(`{"event":%q,"topic":"t","resource":"crane","participant":%q,"fence":"%d","at":"2026-11-01T00:00:00Z"}`, event, who, fence)
	if err := o.p.PublishRaw(pubsub.Main, []string{"lock", "t", "events"}, []byte(line), false); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
}

// overwrite has another state of crane retained.
func (o *witness) overwrite(t *testing.T) {
	t.Helper()
	if err := o.p.PublishRaw(pubsub.Main, []string{"lock", "t", "crane", "state"}, []byte(`{"topic":"t","resource":"crane","epoch":"0.0"}`), true); err != nil {
		t.Fatal(err)
	}
}
