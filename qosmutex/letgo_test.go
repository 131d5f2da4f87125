package qosmutex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/register/local"
)

// once locks a resource, and returns the fence.
func once(t *testing.T, topic *Topic, resource string) uint64 {
	t.Helper()
	h, err := topic.Lock(context.Background(), resource)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	return h.Fence()
}

// A server that has many topics open lets go of those that nobody uses and nobody declared.
// What is asked for again goes on above its fences.
func TestServerLetsGoOfWhatNobodyUses(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("node"), join("robot")
		defer p.Close(ctx)
		defer q.Close(ctx)
		s := newServer(t, p, WithRegister(local.Memory()), clock)
		defer s.Close()
		unused, declared, held, shared := topicOf(t, s, "unused"), topicOf(t, s, "declared"), topicOf(t, s, "held"), topicOf(t, s, "shared")
		if err := declared.Declare(ctx, WithResources("hook")); err != nil {
			t.Fatal(err)
		}
		h, err := held.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		member, err := Open(ctx, q, "shared", clock)
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close(ctx)
		fence := once(t, unused, "hook")
		time.Sleep(2 * letGoAfter)
		recent := topicOf(t, s, "recent")
		s.mu.Lock()
		s.account.total += s.limits.Total - spare(s.limits.Total) - len(s.topics)
		s.mu.Unlock()
		topicOf(t, s, "one more")
		for unused.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for _, topic := range []*Topic{declared, held, shared, recent} {
			if err := topic.Err(); err != nil {
				t.Errorf("%s is closed: %v", topic.Name(), err)
			}
		}
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		_ = h.Unlock()
		if again := once(t, topicOf(t, s, "unused"), "hook"); again <= fence {
			t.Errorf("fence %d after %d", again, fence)
		}
	})
}

// A topic is removed when nobody uses it: then its settings are those of one that is new, and
// nothing of it is retained.
func TestServerRemovesATopic(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("node"), join("robot")
		defer p.Close(ctx)
		defer q.Close(ctx)
		s := newServer(t, p, WithRegister(local.Memory()), clock)
		defer s.Close()
		topic := topicOf(t, s, "crane")
		if err := topic.Declare(ctx, WithResources("hook"), WithModels(Models{Priority: Fair})); err != nil {
			t.Fatal(err)
		}
		fence := once(t, topic, "hook")
		refused := func(by string, part bool) {
			t.Helper()
			var used *InUseError
			if err := s.Remove(ctx, "crane"); !errors.As(err, &used) || !strings.Contains(used.By, by) || used.Part != part {
				t.Errorf("Remove: %v, want that %s", err, by)
			}
		}
		h, err := topic.Lock(ctx, "hook", WithClient("esp32"))
		if err != nil {
			t.Fatal(err)
		}
		refused("esp32 holds hook", false)
		_ = h.Unlock()
		member, err := Open(ctx, q, "crane", clock)
		if err != nil {
			t.Fatal(err)
		}
		refused("robot takes part", true)
		_ = member.Close(ctx)
		time.Sleep(2 * LAN().Heartbeat) // its session ends
		if v := topic.View(); v.ModelsBy == "" || v.ResourcesBy == "" {
			t.Errorf("settings that were not removed: %+v", v)
		}
		if err := s.Remove(ctx, "crane"); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(ctx, "crane"); err != nil { // again
			t.Error(err)
		}
		time.Sleep(time.Second) // what is cleared is on its way
		if left := retained(t, q, "crane"); len(left) > 0 {
			t.Errorf("retained: %q", left)
		}
		topic = topicOf(t, s, "crane")
		if v := topic.View(); v.ModelsBy != "" || v.ResourcesBy != "" || !v.Open || len(v.Resources) > 0 {
			t.Errorf("settings after the removal: %+v", v)
		}
		if again := once(t, topic, "hook"); again <= fence {
			t.Errorf("fence %d after %d", again, fence)
		}
	})
}

// retained is which of a topic's states and views the broker keeps.
func retained(t *testing.T, p *pubsub.Participant, topic string) (left []string) {
	t.Helper()
	var mu sync.Mutex
	for _, levels := range [][]string{{"lock", topic, "view"}, {"lock", topic, "+", "state"}} {
		stop, err := p.SubscribeRaw(context.Background(), pubsub.Main, levels, func(m pubsub.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			if m.Retained && len(m.Payload) > 0 {
				left = append(left, strings.Join(m.Levels, "/"))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		stop()
	}
	return left
}
