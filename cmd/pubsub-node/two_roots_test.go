//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
	"padme/tests/extent"
)

// A root that is cut off from the broker loses its hold before the lock node of a
// new broker can have created the topic again.
func TestTwoRoots(t *testing.T) {
	extent.Long(t, "a lock with two roots")
	t.Parallel()
	dir := t.TempDir()
	addr := address.Free(t)
	first := startBrokerProcess(t, dir, addr)
	ctx := t.Context()
	a, err := pubsub.Join(ctx, "mqtt://"+addr, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	ta, err := qosmutex.Open(ctx, a, "crane", qosmutex.Create(), qosmutex.WithOpenResources(), qosmutex.WithTiming(qosmutex.Local()), qosmutex.WithNodePriority(-1<<62))
	if err != nil {
		t.Fatal(err)
	}
	defer ta.Close(context.Background())
	h, err := ta.Lock(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Cmd.Process.Kill()
	first.exit(t)
	time.Sleep(9 * time.Second) // the back-off of a's connection reaches 5 s
	startBrokerProcess(t, dir, addr)
	next := startNode(t, dir, "mqtt://"+addr, "lock", "crane", "-w", "12s", "--", "sh", "-c", "echo $PADME_FENCE; sleep 0.1")
	if code := next.exit(t); code == 0 && h.Check() == nil {
		t.Fatalf("the next held fence %s while a, fence %d, still passes Check", next.Out.String(), h.Fence())
	}
}
