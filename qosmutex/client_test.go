package qosmutex

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
)

// enterFor takes crane on behalf of a client.
func enterFor(t *testing.T, m *member, client string) *Hold {
	t.Helper()
	h, err := m.Lock(context.Background(), "crane", WithClient(client))
	if err != nil {
		t.Fatalf("%s for %s: %v", m.self.ID, client, err)
	}
	return h
}

// States name the client that holds and those that wait, and whom they come through;
// so does the state that the next root publishes, which has not heard of the entry.
func TestStatesNameTheClient(t *testing.T) {
	for what, change := range map[string]func(w *world, root *member) (end func()){
		"the root stays": func(*world, *member) func() { return func() {} },
		"as planned": func(w *world, _ *member) func() {
			return w.open("successor", WithNodePriority(1)).close
		},
		"the root dies": func(_ *world, root *member) func() {
			root.kill()
			return func() {}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				o := w.witness()
				defer o.close()
				root := creator(w, WithNodePriority(5))
				defer root.close()
				a := w.open("a", WithNodePriority(10))
				defer a.close()
				gate := w.open("gate", WithNodePriority(20))
				defer gate.close()
				pass(10 * time.Second) // they can be the root
				h := enterFor(t, gate, "esp32")
				var waiting sync.WaitGroup
				defer waiting.Wait()
				waiting.Go(func() { leave(t, enterFor(t, gate, "esp33")) })
				pass(time.Second)
				waiting.Go(func() { leave(t, enter(t, a)) })
				pass(time.Second)
				before := o.last("crane").Root
				defer change(w, root)()
				pass(20 * time.Second)
				s := o.last("crane")
				if (s.Root != before) != (what != "the root stays") {
					t.Fatalf("%s, and before %s: %+v", what, before, s)
				}
				if s.Status != "held" || s.Holder != "esp32" || s.Via != "gate" || s.fence() != h.Fence() || s.Priority != 20 {
					t.Errorf("held for esp32 with fence %d: %+v", h.Fence(), s)
				}
				slices.SortFunc(s.Queue, func(a, b Waiter) int { return strings.Compare(a.Participant, b.Participant) })
				want := []Waiter{{Participant: "a", Priority: 10}, {Participant: "esp33", Via: "gate", Priority: 20}}
				if !slices.EqualFunc(s.Queue, want, sameWaiter) {
					t.Errorf("queue %+v, want %+v", s.Queue, want)
				}
				leave(t, h)
				waiting.Wait()
				pass(time.Second)
				if s := o.last("crane"); s.Status != "free" || s.Holder != "" || s.Via != "" {
					t.Errorf("nobody is inside: %+v", s)
				}
			})
		})
	}
}

// The root's own client is named at once, and a grant under way names whom it is for.
func TestStatesNameTheClientOfAGrant(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		root := creator(w)
		defer root.close()
		gate := w.open("gate")
		leave(t, enter(t, gate))
		h := enterFor(t, root, "esp32")
		pass(time.Second)
		if s := o.last("crane"); s.Holder != "esp32" || s.Via != "root" {
			t.Errorf("the root holds for esp32: %+v", s)
		}
		leave(t, h)
		gate.cable.Deafen(true) // the Reply is lost
		var asking sync.WaitGroup
		asking.Go(func() { _, _ = gate.Lock(context.Background(), "crane", WithClient("esp33")) })
		pass(time.Second)
		if s := o.last("crane"); s.Status != "granted" || s.Grantee != "esp33" || s.Via != "gate" {
			t.Errorf("while a grant is under way: %+v", s)
		}
		gate.kill()
		asking.Wait()
	})
}

// Every event of a request names the client; those of others have no via.
func TestEventsNameTheClient(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		o := w.witness()
		defer o.close()
		var mu sync.Mutex
		heard := map[string]map[string]any{} // by event, the last one of gate
		_, err := o.p.SubscribeRaw(t.Context(), pubsub.Main, []string{"lock", "t", "events"}, func(m pubsub.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(string(m.Payload)) {
				var e map[string]any
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Error(err)
				}
				via, isClient := e["via"]
				if request, _ := e["request"].(string); strings.HasPrefix(request, "gate/") {
					heard[e["event"].(string)] = e
				} else if isClient {
					t.Errorf("via %v: %s", via, line)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		root := creator(w)
		defer root.close()
		gate := w.open("gate")
		defer gate.close()
		own := enter(t, root)
		if _, err := gate.TryLock(context.Background(), "crane", WithClient("esp32")); !errors.Is(err, ErrBusy) {
			t.Errorf("held by the root: %v", err)
		}
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := gate.Lock(short, "crane", WithClient("esp32")); !errors.Is(err, ErrTimeout) {
			t.Errorf("held by the root: %v", err)
		}
		var asking sync.WaitGroup
		asking.Go(func() { leave(t, enterFor(t, gate, "esp32")) })
		pass(time.Second)
		if err := gate.SetPriority(7); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		leave(t, own)
		asking.Wait()
		pass(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{EventRequested, EventReprioritized, EventGranted, EventReleased, EventWithdrawn, EventDenied} {
			if e := heard[name]; e["participant"] != "esp32" || e["via"] != "gate" {
				t.Errorf("%s: %v", name, e)
			}
		}
	})
}

func TestClientsHaveNames(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		root := creator(w)
		defer root.close()
		for _, name := range []string{strings.Repeat("x", 65), "\xff"} {
			if _, err := root.Lock(context.Background(), "crane", WithClient(name)); !errors.Is(err, ErrInvalidName) || !strings.Contains(err.Error(), "64 bytes") {
				t.Errorf("client %q: %v", name, err)
			}
		}
		for _, name := range []string{strings.Repeat("x", 64), ""} {
			leave(t, enterFor(t, root, name))
		}
	})
}

// All clients of a participant in one lock topic hear all answers: decoding each of them in
// each client cost a hundred of them most of their entries.
func TestAnswersForOthersAreNotDecoded(t *testing.T) {
	c := &Client{calls: map[string]*call{}}
	c.clock, c.session = bootTime, "AAAAAAAAAAAAAAAA"
	m := pubsub.RawMessage{Payload: []byte(`{"id":"7","session":"BBBBBBBBBBBBBBBB","outcome":"granted","resource":"a","priority":1,"fence":"5","sent":1,"valid_ms":1000,"gateway":"gw"}`)}
	if n := testing.AllocsPerRun(100, func() { c.heard(m) }); n != 0 {
		t.Errorf("%v allocations for an answer to somebody else", n)
	}
}
