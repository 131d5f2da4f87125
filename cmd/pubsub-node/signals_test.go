//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
)

func TestSignalsGoToTheCommand(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		dir := t.TempDir()
		holder := startNode(t, dir, url, "lock", "crane", "--",
			"sh", "-c", `trap 'exit 9' INT TERM HUP QUIT; echo $$ >pid; while :; do sleep 0.05; done`)
		readPID(t, filepath.Join(dir, "pid"))
		if err := holder.Cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := holder.exit(t); code != 9 {
			t.Errorf("%v: exit code %d, want 9: %s", sig, code, &holder.Err)
		}
	}
}

// A process that seems to be stuck tells where.
func TestQuitPrintsStacks(t *testing.T) {
	t.Parallel()
	n := startBrokerProcess(t, t.TempDir(), address.Free(t), "--memory")
	if err := n.Cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if code := n.exit(t); code != 2 || !strings.Contains(n.Err.String(), "goroutine 1 ") {
		t.Errorf("exit code %d: %s", code, &n.Err)
	}
}

// So does lock while it waits: docs/cli.md and its help say that.
func TestQuitWhileWaitingPrintsStacks(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	holder := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", `echo $$ >pid; until [ -e free ]; do sleep 0.02; done`)
	readPID(t, filepath.Join(dir, "pid"))
	waiter := startNode(t, dir, url, "lock", "crane", "--id", "waiter", "--", "touch", "ran")
	awaitQueue(t, url, "waiter")
	if err := waiter.Cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if code := waiter.exit(t); code != exitUsage || !strings.Contains(waiter.Err.String(), "goroutine 1 ") {
		t.Errorf("exit code %d: %s", code, &waiter.Err)
	}
	awaitQueue(t, url) // its last will has come
	if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := holder.exit(t); code != 0 {
		t.Errorf("exit code %d: %s", code, &holder.Err)
	}
}

func TestInterruptedWaitingLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	holder := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", `echo $$ >pid; until [ -e free ]; do sleep 0.02; done`)
	readPID(t, filepath.Join(dir, "pid"))
	waiter := startNode(t, dir, url, "lock", "crane", "--id", "waiter", "--", "touch", "ran")
	awaitQueue(t, url, "waiter")
	if err := waiter.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := waiter.exit(t); code != exitSignal+int(syscall.SIGINT) {
		t.Errorf("exit code %d: %s", code, &waiter.Err)
	}
	awaitQueue(t, url)
	if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := holder.exit(t); code != 0 {
		t.Errorf("exit code %d: %s", code, &holder.Err)
	}
	if exists(filepath.Join(dir, "ran")) {
		t.Error("the interrupted command ran")
	}
}

// awaitQueue waits until these and nobody else wait for the lock crane, as its root
// publishes.
func awaitQueue(t *testing.T, url string, waiting ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceInTests)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "observer")
	if err != nil {
		t.Fatal(err)
	}
	defer leave(p)
	var seen []qosmutex.State
	for st, err := range qosmutex.WatchStates(ctx, p, "crane") {
		if err != nil {
			t.Fatal(err)
		}
		var queue []string
		for _, w := range st.Queue {
			queue = append(queue, w.Participant)
		}
		if st.Waiting == len(waiting) && slices.Equal(queue, waiting) {
			return
		}
		seen = append(seen, st)
	}
	t.Fatalf("%v never waited, but %+v", waiting, seen)
}
