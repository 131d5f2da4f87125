package promises

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
)

// A participant that is closed while much comes in has said goodbye: the broker must not
// publish its will, which would tell everybody of a second death, and stay.
func TestWhoIsClosedWhileMuchComesInIsNotTakenForLost(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		var told sync.Map // what watchers were told last, by participant
		subscribe(t, join(t, url, "watcher"), []string{"presence", "+"}, func(m pubsub.RawMessage) {
			told.Store(m.Levels[1], string(m.Payload))
		})
		stop := flood(t, url)
		for i := range 20 {
			p, err := pubsub.Join(within(t, patience), url, fmt.Sprint("leaver", i))
			if err != nil {
				t.Fatal(err)
			}
			came := make(chan struct{})
			subscribe(t, p, []string{"data", "#"}, func() func(pubsub.RawMessage) {
				first := sync.OnceFunc(func() { close(came) })
				return func(pubsub.RawMessage) { first() }
			}())
			select {
			case <-came:
			case <-time.After(patience):
				t.Fatal("nothing comes")
			}
			if err := p.Close(within(t, patience)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		time.Sleep(300 * time.Millisecond) // for a will to be published
		told.Range(func(who, last any) bool {
			if strings.HasPrefix(who.(string), "leaver") && last != "" {
				t.Errorf("%s has left, and is dead afterwards: %s", who, last)
			}
			return true
		})
	})
}

func subscribe(t *testing.T, p *pubsub.Participant, levels []string, handler func(pubsub.RawMessage)) {
	t.Helper()
	if _, err := p.SubscribeRaw(within(t, patience), pubsub.Main, levels, handler); err != nil {
		t.Fatal(err)
	}
}

// flood writes as fast as the broker takes it, until it is stopped.
func flood(t *testing.T, url string) (stop func()) {
	t.Helper()
	w := writer(t, join(t, url, "flood"), "p", pubsub.QoS{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			_ = w.Write(ctx, value{"k", n})
		}
	}()
	return func() { cancel(); <-done }
}
