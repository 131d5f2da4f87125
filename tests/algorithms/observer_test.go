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
	p     *pubsub.Participant
	heard chan string
}

func observe(ctx context.Context, t *testing.T, url string) *observer {
	t.Helper()
	p, err := pubsub.Join(ctx, url, observerID, pubsub.WithDomain(brokers.Domain(t)))
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{p: p, heard: make(chan string, 2*entries*len(members)+1)}
	if _, err := p.Inbox("inside", func(l pubsub.Letter) { o.heard <- l.From + " " + string(l.Payload) }); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *observer) close(ctx context.Context) { _ = o.p.Close(context.WithoutCancel(ctx)) }

// published waits until the retained state says that the entry with this fence is
// over.
func (o *observer) published(ctx context.Context, t *testing.T, fence uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	states := make(chan qosmutex.State, 1000)
	// By name: not every broker returns what is retained for a wildcard.
	subscribe := func() (stop func()) {
		stop, err := o.p.SubscribeRaw(ctx, []string{"lock", "yard", resource, "state"}, func(m pubsub.RawMessage) {
			var state qosmutex.State
			if err := json.Unmarshal(m.Payload, &state); err != nil {
				t.Error(err)
			}
			states <- state
		})
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	defer subscribe()()
	// NATS may return the state before the last one, and not deliver the last one
	// which was published meanwhile.
	again := time.NewTicker(time.Second)
	defer again.Stop()
	var last qosmutex.State
	for {
		select {
		case <-again.C:
			defer subscribe()()
		case last = <-states:
			// Above the fence if somebody was let in who had no turn left.
			if is, err := strconv.ParseUint(last.Fence, 10, 64); err == nil && is >= fence && last.Holder == "" {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the last state was %+v, want nobody inside after fence %d", last, fence)
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
