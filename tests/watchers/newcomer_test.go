//go:build unix

package watchers

import (
	"context"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// A newcomer multicasts to a topic that a stalled watcher reads as well.
func TestNewcomerBesideStalledWatcher(t *testing.T) {
	l := newLockers(t)
	w := watchers(t)["pubsub"](t, l.broker.URL(), "")
	w.awaitLine(t)
	w.stop(t)
	stall(t, l.broker.URL())
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	p, err := pubsub.Join(ctx, l.broker.URL(), "newcomer")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	topic, err := qosmutex.Open(ctx, p, "crane")
	if err != nil {
		t.Fatal(err)
	}
	_ = topic.Close(ctx)
}
