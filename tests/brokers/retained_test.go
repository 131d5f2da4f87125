package brokers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/brokers"
	"padme/tests/extent"
)

// Of what it retains mosquitto sends 1,020 messages to a subscription at QoS 1 and drops the
// rest, unless it is configured otherwise. Whoever subscribes to a wildcard gets them all: the
// first time, and in another large subscription.
func TestBrokersGiveAllThatTheyRetain(t *testing.T) {
	extent.NotShort(t, "real processes")
	brokers.Both(t, func(t *testing.T, start func() string) {
		const all = 3000
		areas := []string{"north", "south"}
		url := start()
		writer := plain(t, url, "writer")
		for i := range all {
			for _, area := range areas {
				if err := writer.Publish(t.Context(), fmt.Sprintf("%s/%d/level", area, i), []byte("7"), 1, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := writer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader := plain(t, url, "reader")
		for _, area := range areas {
			var mu sync.Mutex
			topics := map[string]bool{}
			stop, err := reader.Subscribe(t.Context(), area+"/+/level", func(m pubsub.PlainMessage) {
				mu.Lock()
				defer mu.Unlock()
				topics[m.Topic] = true
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				mu.Lock()
				n := len(topics)
				mu.Unlock()
				if n == all {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: of %d retained messages %d came", area, all, n)
				}
			}
		}
	})
}

func plain(t *testing.T, url, id string) *pubsub.Plain {
	t.Helper()
	c, err := pubsub.ConnectPlain(t.Context(), url, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}
