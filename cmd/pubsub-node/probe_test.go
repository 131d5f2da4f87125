//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

func TestProbeTwoRoots(t *testing.T) {
	dir := t.TempDir()
	addr := freeAddress(t)
	first := startBrokerProcess(t, dir, addr)
	ctx := t.Context()
	a, err := pubsub.Join(ctx, "mqtt://"+addr, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	ta, err := qosmutex.Open(ctx, a, "crane", qosmutex.Found(), qosmutex.WithOpenResources(), qosmutex.WithTiming(qosmutex.Local()), qosmutex.WithNodePriority(-1<<62))
	if err != nil {
		t.Fatal(err)
	}
	defer ta.Close(context.Background())
	h, err := ta.Lock(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	t.Log("a holds, role", ta.Status().Role, "fence", h.Fence())
	first.Process.Kill()
	first.exit(t)
	time.Sleep(9 * time.Second)
	t.Log("after outage: check", h.Check(), ta.Status().Role)
	startBrokerProcess(t, dir, addr)
	next := startNode(t, dir, "mqtt://"+addr, "lock", "crane", "-w", "12s", "--", "sh", "-c", "echo $PADME_FENCE; sleep 0.1")
	for i := 0; ; i++ {
		select {
		case code := <-next.exited:
			t.Log("next", code, next.stdout.String(), next.stderr.String(), "check of a:", h.Check(), ta.Status().Role, a.Connected())
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
