//go:build unix

package main

import (
	"context"
	"strings"
	"testing"

	"padme/pubsub"
	"padme/qosmutex"
)

// writeOnce makes a writer, starts a process that reads with args, writes v when the
// two match, and returns what the process printed.
func writeOnce[T any](t *testing.T, url string, q pubsub.QoS, v T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceInTests)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "gauge")
	if err != nil {
		t.Fatal(err)
	}
	defer leave(p)
	topic, err := pubsub.NewTopic[T](p, "weather", pubsub.WithCodec(pubsub.JSON))
	if err != nil {
		t.Fatal(err)
	}
	w, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(q))
	if err != nil {
		t.Fatal(err)
	}
	reader := startNode(t, t.TempDir(), url, args...)
	if err := w.WaitMatched(ctx, 1); err != nil {
		_ = reader.Cmd.Process.Kill()
		t.Fatalf("%v with %+v: %v: %s", args, q, err, &reader.Err)
	}
	if err := w.Write(ctx, v); err != nil {
		t.Fatal(err)
	}
	if code := reader.exit(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, &reader.Err)
	}
	return strings.TrimSpace(reader.Out.String())
}

func TestSubAsksForNoMoreThanIsOffered(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	for name, q := range map[string]pubsub.QoS{
		"best effort": {},
		"volatile":    {Reliability: pubsub.Reliable},
		"exclusive":   {Reliability: pubsub.Reliable, Exclusive: true, Strength: 3},
		"partitions":  {Partition: []string{"roof", "cellar"}},
	} {
		if got := writeOnce(t, url, q, document{"default", []byte("21")}, "sub", "weather", "--once"); got != "21" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
