package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register/local"
)

// A gateway lets go of a lock topic when it is asked to in its own name, and nobody uses it.
func TestRemoveIsAskedInTheNameOfTheGateway(t *testing.T) {
	onSite(t, func(s *site) {
		n := s.node("node", local.Memory())
		defer n.die()
		if err := mustTopic(t, n.server, "crane").Declare(context.Background(), qosmutex.WithResources("hook")); err != nil {
			t.Fatal(err)
		}
		c := s.client("esp32", "crane")
		defer c.close()
		operator := s.join("operator", s.broker.Dial)
		defer operator.Close(context.Background())
		answers := make(chan string, 16)
		if _, err := operator.SubscribeRaw(context.Background(), pubsub.Main, []string{"lock", "crane", "client", "node", "answer"}, func(m pubsub.RawMessage) { answers <- string(m.Payload) }); err != nil {
			t.Fatal(err)
		}
		remove := func(as, want string) {
			t.Helper()
			if err := operator.PublishRaw(pubsub.Main, []string{"lock", "crane", "client", as, "request"}, []byte(`{"op":"remove","id":"1"}`), false); err != nil {
				t.Fatal(err)
			}
			select {
			case a := <-answers:
				if want == "" || !strings.Contains(a, want) {
					t.Errorf("asked as %s: %s, want %s", as, a, want)
				}
			case <-time.After(10 * time.Second):
				if want != "" {
					t.Errorf("asked as %s: no answer", as)
				}
			}
		}
		held := c.ask(jsonlock.Acquire, "1", `"resource":"hook"`, jsonlock.Granted)
		remove("node", `"outcome":"denied","reason":"busy","detail":"esp32 holds hook"`)
		c.ask(jsonlock.Release, "1", "", jsonlock.Released)
		remove("operator", "")
		if v := mustTopic(t, n.server, "crane").View(); v.ResourcesBy == "" {
			t.Errorf("somebody else could remove it: %+v", v)
		}
		remove("node", `"outcome":"released"`)
		again := c.ask(jsonlock.Acquire, "2", `"resource":"sling"`, jsonlock.Granted)
		if fenceOf(t, again) <= fenceOf(t, held) {
			t.Errorf("fence %s after %s", again.Fence, held.Fence)
		}
	})
}
