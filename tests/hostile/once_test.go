//go:build linux

package hostile

import (
	"context"
	"testing"

	"padme/pubsub"
	"padme/qosmutex"
)

// once takes a lock of a topic once, and returns its fence. Of one that the participant has
// open already it does nothing.
func once(t *testing.T, p *pubsub.Participant, name string, open bool) uint64 {
	t.Helper()
	if open {
		return 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	topic, err := qosmutex.Open(ctx, p, name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer func() { _ = topic.Close(context.WithoutCancel(ctx)) }()
	hold, err := topic.Lock(ctx, "hook")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := hold.Unlock(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return hold.Fence()
}
