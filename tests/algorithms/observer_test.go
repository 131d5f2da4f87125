package algorithms_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/brokers"
)

const observerID = "observer"

// observer is a client of the broker that knows nothing of locks. It hears who
// says to be inside.
type observer struct {
	p      *pubsub.Participant
	heard  chan string
	states chan qosmutex.State
}

func observe(ctx context.Context, t *testing.T, url string) *observer {
	t.Helper()
	p, err := pubsub.Join(ctx, url, observerID, pubsub.WithDomain(brokers.Domain(t)))
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{p: p, heard: make(chan string, 2*entries*len(members)+1), states: make(chan qosmutex.State, 1000)}
	if _, err := p.Inbox("inside", func(l pubsub.Message) { o.heard <- l.From + " " + string(l.Payload) }); err != nil {
		t.Fatal(err)
	}
	if brokers.Chosen() == brokers.NATS {
		// A server may return the state before the last one for two minutes; who has
		// subscribed before is told in time.
		o.subscribe(ctx, t)
	}
	return o
}

// subscribe by name: not every broker returns what is retained for a wildcard.
func (o *observer) subscribe(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	stop, err := o.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "yard", resource, "state"}, func(m pubsub.RawMessage) {
		var state qosmutex.State
		if err := json.Unmarshal(m.Payload, &state); err != nil {
			t.Error(err)
		}
		o.states <- state
	})
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

func (o *observer) close(ctx context.Context) { _ = o.p.Close(context.WithoutCancel(ctx)) }

// published waits until the retained state says that the entry with this fence is
// over.
func (o *observer) published(ctx context.Context, t *testing.T, fence uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer o.subscribe(ctx, t)()
	var last qosmutex.State
	for {
		select {
		case last = <-o.states:
			// Above the fence if somebody was let in who had no turn left.
			if is, err := strconv.ParseUint(last.Fence, 10, 64); err == nil && is >= fence && last.Holder == "" {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the last state was %+v, want nobody inside after fence %d", last, fence)
		}
	}
}

// settle enters until a state tells of it: what is published while NATS makes a
// subscription, as that of the member who publishes the states, is lost to that.
func (o *observer) settle(ctx context.Context, t *testing.T, topic qosmutex.Locker) {
	t.Helper()
	for {
		var fence uint64
		if err := topic.Do(ctx, resource, func(_ context.Context, h *qosmutex.Hold) error {
			fence = h.Fence()
			return nil
		}, qosmutex.WithHold(10*time.Millisecond)); err != nil {
			t.Fatalf("no state ever told of an entry: %v", err)
		}
		again := time.After(time.Second)
	wait:
		for {
			select {
			case state := <-o.states:
				if is, err := strconv.ParseUint(state.Fence, 10, 64); err == nil && is >= fence {
					return
				}
			case <-again:
				break wait
			}
		}
	}
}

// check demands that everybody came in and went out before the next one, each
// with a higher fence than all before, and returns the last.
func (o *observer) check(t *testing.T) (last uint64) {
	t.Helper()
	inside := ""
	for n := range 2 * entries * len(members) {
		var who, what string
		var fence uint64
		select {
		case word := <-o.heard:
			if _, err := fmt.Sscan(word, &who, &what, &fence); err != nil {
				t.Fatalf("%q: %v", word, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("only %d words were heard", n)
		}
		switch {
		case what == "in" && inside != "":
			t.Fatalf("%s enters with fence %d while %s is inside", who, fence, inside)
		case what == "in" && fence <= last:
			t.Fatalf("%s enters with fence %d after %d", who, fence, last)
		case what == "out" && inside != who:
			t.Fatalf("%s leaves, but inside is %q", who, inside)
		case what == "in":
			inside, last = who, fence
		default:
			inside = ""
		}
	}
	return last
}
