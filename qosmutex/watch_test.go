package qosmutex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/poll"
)

// collectStates returns the latest states of a topic once there are n resources.
func collectStates(t testing.TB, p *pubsub.Participant, topic string, n int) map[string]State {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
	defer cancel()
	states := map[string]State{}
	for s, err := range WatchStates(ctx, p, topic) {
		if err != nil {
			t.Errorf("WatchStates: %v", err)
			break
		}
		if states[s.Resource] = s; len(states) == n {
			break
		}
	}
	return states
}

// messages keeps what a plain subscriber of the broker sees.
type messages struct {
	mu  sync.Mutex
	all []pubsub.RawMessage
}

func subscribe(t testing.TB, p *pubsub.Participant, levels ...string) *messages {
	t.Helper()
	m := &messages{}
	stop, err := p.SubscribeRaw(testContext(t), pubsub.Main, levels, func(r pubsub.RawMessage) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.all = append(m.all, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return m
}

func (m *messages) now() []pubsub.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]pubsub.RawMessage{}, m.all...)
}

func TestEventsAreJSONLinesForEverybody(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	_, members := group(t, url, "t", 1)
	plain := subscribe(t, join(t, url, "plain"), "lock", "t", "events")
	h := lock(t, members[0], "crane", WithPriority(-3))
	unlock(t, h)
	ctx, cancel := context.WithTimeout(testContext(t), 10*time.Millisecond)
	defer cancel()
	_, err := members[0].TryLock(ctx, "truck")
	_ = err
	var events []map[string]any
	poll.Until(t, "a released event", func() bool {
		events = nil
		for _, m := range plain.now() {
			for line := range strings.Lines(string(m.Payload)) {
				var e map[string]any
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if e["participant"] == "a" && e["resource"] == "crane" {
					events = append(events, e)
				}
			}
		}
		return len(events) == 3
	})
	for i, name := range []string{"requested", "granted", "released"} {
		e := events[i]
		if e["event"] != name || e["topic"] != "t" || e["request"] != events[0]["request"] || e["priority"] != -3.0 {
			t.Errorf("event %d is %v, want %s", i, e, name)
		}
		if _, err := time.Parse(time.RFC3339Nano, e["at"].(string)); err != nil {
			t.Error(err)
		}
		if fence, _ := e["fence"].(string); (fence == formatFence(h.Fence())) != (i > 0) {
			t.Errorf("event %s has fence %q", name, fence)
		}
	}
	if events[1]["waited"] == nil || events[2]["held"] == nil || !strings.HasPrefix(events[0]["request"].(string), "a/") {
		t.Errorf("times or request missing: %v", events)
	}
}

func TestStateFollowsTheHolder(t *testing.T) {
	t.Parallel()
	url := startRemembering(t)
	root, members := group(t, url, "t", 2, WithTiming(LAN()))
	observer := join(t, url, "observer")
	free := collectStates(t, observer, "t", 2)
	if s := free["crane"]; s.Holder != "" || s.Root != "root" || s.Epoch == "" || s.Waiting != 0 {
		t.Errorf("free state %+v", s)
	}
	h := lock(t, members[0], "crane", WithPriority(7))
	go func() { unlock(t, lock(t, members[1], "crane", WithPriority(9))) }()
	var s State
	poll.Until(t, "a holds and b waits", func() bool {
		s = collectStates(t, observer, "t", 2)["crane"]
		return s.Holder == "a" && s.Waiting == 1
	})
	if s.Priority != 7 || s.Fence != formatFence(h.Fence()) || len(s.Queue) != 1 || !sameWaiter(s.Queue[0], Waiter{Participant: "b", Priority: 9}) || time.Since(s.Since) > time.Minute {
		t.Errorf("state %+v", s)
	}
	q, err := members[0].Queue(testContext(t), "crane")
	if err != nil || len(q) != 1 || q[0].Participant != "b" {
		t.Errorf("Queue = %v, %v", q, err)
	}
	if q, err := root.Queue(testContext(t), "truck"); err != nil || len(q) != 0 {
		t.Errorf("Queue = %v, %v", q, err)
	}
	if _, err := root.Queue(testContext(t), "ship"); !errors.Is(err, ErrUndeclared) {
		t.Errorf("Queue = %v, want ErrUndeclared", err)
	}
	unlock(t, h)
	// A first member that is no root hears of entries by events alone, so before b's it
	// may show a free resource.
	poll.Until(t, "free again after b", func() bool {
		s = collectStates(t, observer, "t", 2)["crane"]
		return s.Holder == "" && s.Waiting == 0 && parseFence(s.Fence) > h.Fence()
	})
}

// Under Use a participant on the way enters with the token that was sent to
// another; the state names who is inside.
func TestStateNamesWhoUsesTheTokenOnItsWay(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	opts := []Option{WithModels(models(t, "FFUU"))}
	root := open(t, join(t, url, "root"), "t", append(opts, Create(), WithResources("crane"), WithNodePriority(0))...)
	middle := open(t, join(t, url, "middle"), "t", WithParent("root"), WithNodePriority(10))
	leaf := open(t, join(t, url, "leaf"), "t", WithParent("middle"), WithNodePriority(20))
	h := lock(t, root, "crane")
	leafHold, middleHold := make(chan *Hold, 1), make(chan *Hold, 1)
	go func() { leafHold <- lock(t, leaf, "crane") }()
	poll.Until(t, "leaf waits", func() bool { return waitingAt(root, "crane") == 1 })
	go func() { middleHold <- lock(t, middle, "crane") }()
	poll.Until(t, "middle waits", func() bool { return waitingAt(root, "crane") == 2 })
	holder := func(want string) func() bool {
		return func() bool {
			root.mu.Lock()
			defer root.mu.Unlock()
			return root.board.resources["crane"].last.Holder == want
		}
	}
	unlock(t, h)
	h = <-middleHold // the first on the way, though the token is the leaf's
	poll.Until(t, "the state names middle", holder("middle"))
	unlock(t, h)
	h = <-leafHold
	poll.Until(t, "the state names leaf", holder("leaf"))
	unlock(t, h)
	poll.Until(t, "the state names nobody", holder(""))
}

func TestRootAnswersAForeignState(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, _ := group(t, url, "t", 0)
	h := lock(t, root, "crane")
	p := join(t, url, "liar")
	plain := subscribe(t, p, "lock", "t", "crane", "state")
	poll.Until(t, "the root follows its topic", func() bool {
		root.mu.Lock()
		defer root.mu.Unlock()
		return root.board.following
	})
	for _, lie := range []string{
		`{"topic":"t","resource":"crane","holder":"liar","fence":"1","epoch":"1.x","root":"liar"}`, "", "garbage",
	} {
		before := len(plain.now())
		if err := p.PublishRaw(pubsub.Main, []string{"lock", "t", "crane", "state"}, []byte(lie), true); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "the root says who holds it", func() bool {
			all := plain.now()
			if len(all) < before+2 {
				return false
			}
			s, ok := parseState(all[len(all)-1])
			return ok && s.Holder == "root" && s.Fence == formatFence(h.Fence())
		})
	}
	unlock(t, h)
}

// TestAnUnsettledRootClearsNothing: holders and waiters may not have reported to it yet. What
// has not been reported once it grants is over.
func TestAnUnsettledRootClearsNothing(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	p := join(t, url, "plain")
	of := func(resource string) []string { return []string{"lock", "t", resource, "state"} }
	for _, resource := range []string{"hook", "press"} {
		state := `{"topic":"t","resource":"` + resource + `","status":"held","holder":"x","fence":"1","epoch":"1.x","root":"former"}`
		if err := p.PublishRaw(pubsub.Main, of(resource), []byte(state), true); err != nil {
			t.Fatal(err)
		}
	}
	hook, press := subscribe(t, p, of("hook")...), subscribe(t, p, of("press")...)
	poll.Until(t, "both are retained", func() bool { return len(hook.now()) == 1 && len(press.now()) == 1 })
	root := open(t, join(t, url, "root"), "t", Create(), WithOpenResources(), WithTiming(LAN()))
	request, err := root.Ask("hook")
	if err != nil {
		t.Fatal(err)
	}
	wait := make(chan error, 1)
	go func() { _, err := request.Wait(testContext(t)); wait <- err }()
	poll.Until(t, "what was not asked for is cleared", func() bool {
		all := press.now()
		cleared := len(all[len(all)-1].Payload) == 0
		root.mu.Lock()
		defer root.mu.Unlock()
		if cleared && root.unsettled() {
			t.Fatal("an unsettled root has cleared a state")
		}
		return cleared
	})
	if err := <-wait; err != nil {
		t.Fatal(err)
	}
	for _, m := range hook.now() {
		if len(m.Payload) == 0 {
			t.Error("what is waited for was cleared")
		}
	}
}

func TestViewTellsTheSettings(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, _ := group(t, url, "t", 2)
	plain := subscribe(t, join(t, url, "plain"), "lock", "t", "view")
	view := func() (v View) {
		if all := plain.now(); len(all) > 0 {
			if err := json.Unmarshal(all[len(all)-1].Payload, &v); err != nil {
				t.Fatal(err)
			}
		}
		return v
	}
	poll.Until(t, "a view of three members", func() bool { return view().Members == 3 })
	v := view()
	if v.Root != "root" || v.TTL != 1.2 || v.Models != "level-forward-forward-forward" || len(v.Resources) != 2 || v.Open {
		t.Errorf("view %+v", v)
	}
	if err := root.Configure(testContext(t), WithModels(Models{Priority: Fair})); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the models changed", func() bool { return view().Models == "fair-forward-forward-forward" })
}

func TestWatchAllTopics(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	p := join(t, url, "p")
	topics := []*Topic{open(t, p, "one", Create(), WithOpenResources()), open(t, p, "two", Create(), WithOpenResources())}
	ctx, cancel := context.WithCancel(testContext(t))
	seen := make(chan Event, 100)
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range WatchEvents(ctx, join(t, url, "observer"), "") {
			if err != nil {
				t.Errorf("WatchEvents: %v", err)
			}
			seen <- e
		}
		close(seen)
	})
	want := map[string]bool{"one": true, "two": true}
	for len(want) > 0 { // the subscription may come after the first events
		for _, topic := range topics {
			unlock(t, lock(t, topic, "x"))
		}
		select {
		case e := <-seen:
			if e.Event == EventReleased {
				delete(want, e.Topic)
			}
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	for range seen {
	}
	watching.Wait()
	for _, err := range WatchEvents(testContext(t), p, "a\x00") {
		if err == nil {
			t.Error("a bad name was accepted")
		}
	}
}

// Anybody may publish states of more resources than a watcher keeps, in one go.
func TestStatesOfMoreResourcesThanAreKept(t *testing.T) {
	w := newWatcher()
	state := func(topic, resource string, n int) pubsub.RawMessage {
		return pubsub.RawMessage{Levels: []string{"lock", topic, resource, "state"}, Payload: []byte{byte(n)}}
	}
	for n := range 2 {
		for i := range maxUnread + 5 {
			w.replace(state("t", fmt.Sprint(i), n))
		}
	}
	unread, missed := w.take()
	if len(unread) != maxUnread || missed != 10 {
		t.Errorf("%d unread, %d missed", len(unread), missed)
	}
	for _, m := range unread {
		if m.Payload[0] != 1 {
			t.Fatalf("%v is not the latest", m)
		}
	}
	w.replace(state("a/b", "c", 1))
	w.replace(state("a", "b/c", 2))
	if unread, _ := w.take(); len(unread) != 2 {
		t.Errorf("a state took the place of another lock's: %v", unread)
	}
}

func TestSlowWatcherIsToldWhatItMissed(t *testing.T) {
	w := newWatcher()
	for range maxUnread + 5 {
		w.append(pubsub.RawMessage{})
	}
	if unread, missed := w.take(); len(unread) != maxUnread || missed != 5 {
		t.Errorf("%d unread, %d missed", len(unread), missed)
	}
	for i := range 10 {
		w.replace(pubsub.RawMessage{Levels: []string{"lock", "t", "x", "state"}, Payload: []byte{byte(i)}})
	}
	if unread, missed := w.take(); len(unread) != 1 || missed != 0 || unread[0].Payload[0] != 9 {
		t.Errorf("%v unread, %d missed, want the latest only", unread, missed)
	}
}

// What is retained in the end is that nobody is inside, also when the root, who says so, is
// the one who was, and closes.
func TestStateAfterTheRootHasClosed(t *testing.T) {
	t.Parallel()
	url := startWithFreshStates(t)
	watcher := join(t, url, "watcher")
	topic := open(t, join(t, url, "p"), "yard", Create(), WithResources("crane"))
	h := lock(t, topic, "crane")
	poll.Until(t, "the state says who holds", func() bool { return collectStates(t, watcher, "yard", 1)["crane"].Holder == "p" })
	closeTopic(t, topic)
	poll.Until(t, "the state says that nobody does", func() bool {
		s := collectStates(t, watcher, "yard", 1)["crane"]
		return s.Holder == "" && s.Fence == formatFence(h.Fence())
	})
}
