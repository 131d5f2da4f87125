package qosmutex

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
)

// A root whose resources all change without a pause spends a bounded part of its time on
// their states, and publishes the newest of each in the end. Its events wait for no state.
func TestStatesOfManyResourcesAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("root")
		defer p.Close(ctx)
		names := make([]string, 500)
		for i := range names {
			names[i] = fmt.Sprint("lock", i)
		}
		root, err := Open(ctx, p, "t", Create(), WithResources(names...), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(ctx)
		var mu sync.Mutex
		count, latest := 0, map[string]State{}
		stop, err := p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "t", "+", "state"}, func(m pubsub.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			if s, ok := parseState(m); ok {
				count, latest[s.Resource] = count+1, s
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		unlisten, err := p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "t", "events"}, func(m pubsub.RawMessage) {
			events, _ := parseEvents("t", m.Payload, nil)
			for _, e := range events {
				if late := time.Since(e.At); e.Resource != "" && late > eventsEvery+flushAfter {
					t.Errorf("%s of %s was published %v after it had happened", e.Event, e.Resource, late)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer unlisten()
		fences := map[string]string{}
		time.Sleep(time.Minute) // a new root grants nothing for a grace
		mu.Lock()
		before := count
		mu.Unlock()
		began := time.Now()
		for time.Since(began) < time.Second {
			for _, name := range names {
				h, err := root.Lock(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				fences[name] = formatFence(h.Fence())
				if err := h.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Second)
		stop()
		mu.Lock()
		defer mu.Unlock()
		// A round that is under way at either end comes on top.
		if n, most := count-before, int(time.Second/statePause)+2*len(names); n > most {
			t.Errorf("%d states in a second, want at most %d", n, most)
		}
		for _, name := range names {
			if s := latest[name]; s.Status != StatusFree || s.Fence != fences[name] {
				t.Fatalf("in the end the state of %s is %q with fence %s, want %q with %s", name, s.Status, s.Fence, StatusFree, fences[name])
			}
		}
	})
}

// A topic of a participant waits for its turn to report, and is locked and let go of meanwhile.
func TestTopicsTakeTurnsToReport(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p := join("root")
		defer p.Close(ctx)
		root, err := Open(ctx, p, "t", Create(), WithResources("crane"), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(ctx)
		time.Sleep(time.Minute) // a new root grants nothing for a grace
		var told atomic.Int32
		for _, levels := range [][]string{{"lock", "t", "crane", "state"}, {"lock", "t", "events"}} {
			stop, err := p.SubscribeRaw(ctx, pubsub.Main, levels, func(m pubsub.RawMessage) {
				if !m.Retained {
					told.Add(1)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
		}
		others := root.alarms.reporting
		for range cap(others) {
			others <- struct{}{}
		}
		h, err := root.Lock(ctx, "crane")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := told.Load(); n > 0 {
			t.Errorf("%d reports before its turn", n)
		}
		<-others
		time.Sleep(time.Second)
		if n := told.Load(); n < 2 {
			t.Errorf("%d reports after its turn", n)
		}
		for range cap(others) - 1 {
			<-others
		}
	})
}
