package broker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/tests/bubble"
)

// stands is what a new client finds retained below a filter, by topic.
func stands(t *testing.T, b *broker.Broker, filter string) []string {
	t.Helper()
	c, err := dial(t, inProcess(b))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Disconnect(50)
	c.subscribe(filter, 1)
	time.Sleep(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for _, m := range c.inbox {
		all[m.Topic()] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func presence(alive bool, incarnation, epoch int) string {
	return fmt.Sprintf(`{"alive":%v,"incarnation":"%d","epoch":"%d","since":"2026-01-01T00:00:00Z"}`, alive, incarnation, epoch)
}

func announced(incarnation, epoch int) string {
	return fmt.Sprintf(`{"kind":"writer","topic":"t","incarnation":"%d","epoch":"%d"}`, incarnation, epoch)
}

func TestWhatTheDeadHaveRetainedIsCleared(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, err := broker.Start(context.Background(), broker.Config{DataDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, b)
		c, err := dial(t, inProcess(b))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Disconnect(50)
		const root = "padme/v1/default/"
		keep := func(topic, payload string) { c.publish(root+topic, payload, 1, true) }
		keep("presence/dead", presence(false, 5, 7))
		keep("ep/t/dead/w1", announced(5, 7))
		keep("ep/t%2Fu/dead/r2", announced(4, 9))
		keep("ep/t/dead/w3", announced(5, 8)) // its next connection is announcing already
		keep("ep/t/other/w1", announced(5, 7))
		keep("data/p/t/k/dead/w1", "a sample")
		keep("lock/l/member/dead", `{"incarnation":"5"}`)
		keep("presence/alive", presence(true, 5, 7))
		keep("ep/t/alive/w1", announced(5, 7))
		keep("presence/back", presence(false, 5, 7))
		keep("ep/t/back/w1", announced(5, 7))
		keep("presence/again", presence(false, 5, 7))
		keep("ep/t/again/w1", announced(5, 7))
		keep("presence/broken", "{")
		c.publish("padme/v1/presence/dead", presence(false, 5, 7), 1, true) // of no domain
		all := stands(t, b, root+"#")
		time.Sleep(9 * time.Minute)
		if got := stands(t, b, root+"#"); !slices.Equal(got, all) {
			t.Errorf("after nine minutes %q", got)
		}
		keep("presence/back", presence(true, 5, 8))
		keep("presence/again", presence(false, 5, 9)) // it was back, and died again
		c.subscribe(root+"presence/+", 1)
		c.receive(5)
		c.subscribe(root+"ep/+/+/+", 1)
		c.receive(5 + 7)
		time.Sleep(3 * time.Minute)
		left := slices.DeleteFunc(slices.Clone(all), func(topic string) bool {
			return slices.Contains([]string{root + "presence/dead", root + "ep/t/dead/w1", root + "ep/t%2Fu/dead/r2"}, topic)
		})
		if got := stands(t, b, root+"#"); !slices.Equal(got, left) {
			t.Errorf("after twelve minutes %q, want %q", got, left)
		}
		if got := c.receive(5 + 7 + 1); len(got) != 13 || got[12] != "" {
			t.Errorf("who follows presences and announcements was told %q", got[12:])
		}
		time.Sleep(10 * time.Minute)
		if got := stands(t, b, root+"+/again"); len(got) > 0 {
			t.Errorf("after its last death %q", got)
		}
		if got := stands(t, b, "padme/v1/presence/dead"); len(got) != 1 {
			t.Errorf("of no domain %q", got)
		}
	})
}

// The data directory forgets them too, and a death that it brings is not for ever.
func TestTheDeadAreClearedOverARestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for i, want := range [][]string{{"padme/v1/d/presence/x"}, nil, nil} {
			b, err := broker.Start(context.Background(), broker.Config{DataDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				c, err := dial(t, inProcess(b))
				if err != nil {
					t.Fatal(err)
				}
				c.publish("padme/v1/d/presence/x", presence(false, 1, 1), 1, true)
				c.Disconnect(50)
			}
			if i == 1 {
				time.Sleep(12 * time.Minute)
			}
			if got := stands(t, b, "padme/#"); !slices.Equal(got, want) {
				t.Errorf("run %d: %q", i, got)
			}
			stop(t, b)
		}
	})
}

// Who does not come back after the broker has crashed is dead, which is told, and then
// cleared.
func TestWhoDiedWithTheBrokerIsTakenForDead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		presences := map[string]string{}
		publish := func(b *broker.Broker, who string, epoch int) {
			c, err := dial(t, inProcess(b))
			if err != nil {
				t.Fatal(err)
			}
			c.publish("padme/v1/d/presence/"+who, presence(true, 1, epoch), 1, true)
			c.publish("padme/v1/d/ep/t/"+who+"/w1", announced(1, epoch), 1, true)
			c.Disconnect(50)
		}
		b, err := broker.Start(context.Background(), broker.Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		publish(b, "gone", 1)
		publish(b, "back", 1)
		stop(t, b)
		if b, err = broker.Start(context.Background(), broker.Config{DataDir: dir}); err != nil {
			t.Fatal(err)
		}
		defer stop(t, b)
		publish(b, "back", 2)
		publish(b, "new", 1)
		watcher, err := dial(t, inProcess(b))
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Disconnect(50)
		watcher.subscribe("padme/v1/d/presence/+", 1)
		alive := func() string {
			time.Sleep(12 * time.Minute)
			watcher.mu.Lock()
			defer watcher.mu.Unlock()
			for _, m := range watcher.inbox {
				presences[strings.TrimPrefix(m.Topic(), "padme/v1/d/presence/")] = strings.SplitN(string(m.Payload()), ",", 2)[0]
			}
			return fmt.Sprint(presences)
		}
		if got, want := alive(), `map[back:{"alive":true gone:{"alive":false new:{"alive":true]`; got != want {
			t.Errorf("after twelve minutes %s, want %s", got, want)
		}
		if got, want := alive(), `map[back:{"alive":true gone: new:{"alive":true]`; got != want {
			t.Errorf("after twice that %s, want %s", got, want)
		}
		if got := stands(t, b, "padme/v1/d/ep/#"); len(got) != 2 {
			t.Errorf("announced are %q", got)
		}
	})
}

// Access rules concern users, not the broker.
func TestTheDeadAreClearedUnderAccessRules(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, err := broker.Start(context.Background(), broker.Config{Users: cast(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, b)
		c, err := dial(t, inProcess(b), as("alice", "alice"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Disconnect(50)
		c.publish("padme/v1/d/presence/alice", presence(false, 1, 1), 1, true)
		c.publish("padme/v1/d/ep/t/alice/w1", announced(1, 1), 1, true)
		time.Sleep(12 * time.Minute)
		c.subscribe("padme/v1/d/presence/+", 1)
		c.subscribe("padme/v1/d/ep/+/+/+", 1)
		time.Sleep(time.Second)
		if got := c.payloads(); len(got) > 0 {
			t.Errorf("%q", got)
		}
	})
}
