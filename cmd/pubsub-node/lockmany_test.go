//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// TestFiveHundredCommandsAtOnce: all are served, one at a time, and of those that wait
// the most important is next.
func TestFiveHundredCommandsAtOnce(t *testing.T) {
	const commands, priorities = 500, 5
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	first := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.05; done")
	eventually(t, "the first one holds", func() bool { return exists(filepath.Join(dir, "held")) })
	var nodes []*node
	for i := range commands {
		priority := strconv.Itoa(i % priorities)
		nodes = append(nodes, startNode(t, dir, url, "lock", "crane", "-p", priority, "--id", fmt.Sprint("c", i), "--",
			"sh", "-c", "echo in "+priority+" $PADME_FENCE >>log; echo out "+priority+" $PADME_FENCE >>log"))
	}
	awaitWaiting(t, url, commands)
	if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for _, n := range append(nodes, first) {
		if code := n.exitWithin(t, 2*time.Minute); code != 0 {
			t.Errorf("%v: exit code %d: %s", n.Args, code, &n.stderr)
		}
	}
	t.Logf("%d commands in %v", commands, time.Since(begun).Round(time.Millisecond))
	checkLog(t, filepath.Join(dir, "log"), commands)
}

// checkLog checks that nobody overlapped, fences rise, and priorities were served in order.
func checkLog(t *testing.T, path string, commands int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2*commands {
		t.Fatalf("%d lines, want %d", len(lines), 2*commands)
	}
	var last uint64
	var order []string
	for i := 0; i < len(lines); i += 2 {
		in := strings.Fields(lines[i])
		if lines[i+1] != "out"+strings.TrimPrefix(lines[i], "in") || len(in) != 3 {
			t.Fatalf("overlap at line %d: %q, %q", i+1, lines[i], lines[i+1])
		}
		fence, err := strconv.ParseUint(in[2], 10, 64)
		if err != nil || fence <= last {
			t.Fatalf("fence %s after %d", in[2], last)
		}
		last = fence
		order = append(order, in[1])
	}
	if !slices.IsSorted(order) {
		t.Errorf("served in the order of priorities %v", order)
	}
}

// awaitWaiting waits until so many wait for the lock crane, as its root publishes.
func awaitWaiting(t *testing.T, url string, waiting int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "observer", pubsub.Unannounced())
	if err != nil {
		t.Fatal(err)
	}
	defer leave(p)
	most := 0
	for st, err := range qosmutex.WatchStates(ctx, p, "crane") {
		if err != nil {
			t.Fatal(err)
		}
		if most = max(most, st.Waiting); st.Waiting == waiting {
			return
		}
	}
	t.Fatalf("at most %d waited, want %d", most, waiting)
}
