//go:build unix

package watchers

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// TestLockStateIsReadableJSON reads what any MQTT client can: the topic says
// whose state it is and the payload is one JSON object.
func TestLockStateIsReadableJSON(t *testing.T) {
	l := newLockers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	hold, err := l.topics[1].Lock(ctx, "hook 2.5")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Unlock() }()
	served, err := l.topics[1].Lock(ctx, "hook 3", qosmutex.WithClient("esp32"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = served.Unlock() }()
	const topic = "padme/v1/default/lock/crane/hook%202%2E5/state"

	t.Run("SubscribeRaw", func(t *testing.T) {
		p, err := pubsub.Join(ctx, l.broker.URL(), "reader")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close(ctx) }()
		got := make(chan []byte, 64)
		stop, err := p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", "crane", "+", "state"}, func(m pubsub.RawMessage) {
			select {
			case got <- bytes.Clone(m.Payload):
			default:
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for member, client := false, false; !member || !client; {
			payload := <-got
			member, client = member || heldByA(t, payload), client || heldForClient(t, payload)
		}
	})
	if path := mosquitto(t); path != "" {
		t.Run("mosquitto_sub", func(t *testing.T) {
			w := start(t, mosquittoCommand(t, path, l.broker.URL(), "#"))
			for line := range w.lines {
				if state, ok := strings.CutPrefix(line, topic+" "); ok && heldByA(t, []byte(state)) {
					return
				}
			}
			t.Error("mosquitto_sub ended without having seen the state")
		})
	}
}

// heldByA checks a published state. It is false for an older one.
func heldByA(t *testing.T, payload []byte) bool {
	t.Helper()
	var state struct {
		Topic, Resource, Holder, Fence, Epoch, Root string
		Since                                       time.Time
		Waiting                                     *int
	}
	if err := json.Unmarshal(payload, &state); err != nil {
		t.Fatalf("%s is no JSON: %v", payload, err)
	}
	if state.Resource == "hook" || state.Resource == "hook 3" { // newLockers locks the one, before the test begins
		return false
	}
	if state.Topic != "crane" || state.Resource != "hook 2.5" || state.Root != "root" || state.Epoch == "" || state.Waiting == nil {
		t.Errorf("state %s", payload)
	}
	return state.Holder == "a" && state.Fence != "" && state.Fence != "0" && !state.Since.IsZero()
}

// heldForClient reports whether a published state says that a holds for a client.
func heldForClient(t *testing.T, payload []byte) bool {
	t.Helper()
	var state struct{ Resource, Status, Holder, Via string }
	if err := json.Unmarshal(payload, &state); err != nil {
		t.Fatalf("%s is no JSON: %v", payload, err)
	}
	return state.Resource == "hook 3" && state.Status == "held" && state.Holder == "esp32" && state.Via == "a"
}
