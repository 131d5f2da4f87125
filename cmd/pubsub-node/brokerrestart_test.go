//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
)

// TestBrokerRestartCostsNoHold: the broker ends, or is killed, and is started again at
// once. Holders go on, a command under a lock too; and those that contend for another
// lock of the topic enter again soon after the broker serves.
func TestBrokerRestartCostsNoHold(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			url, data := "mqtt://"+addr, filepath.Join(dir, "data")
			b := startBrokerProcess(t, dir, addr, "--data", data)
			command := startNode(t, dir, url, "lock", "crane/command", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.02; done")
			eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "held")) })
			one, other := member(t, url, "one"), member(t, url, "other")
			hold, err := one.Lock(t.Context(), "hold")
			if err != nil {
				t.Fatal(err)
			}
			entered := contend(t, "contended", one, other)
			entered(t, time.Now().Add(time.Duration(qosmutex.LAN().Heartbeat)*3/2)) // by then the holds are confirmed
			const restarts = 10
			for range restarts {
				ends := time.Now()
				if err := b.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				b.exit(t)
				ended := time.Now()
				b = startBrokerProcess(t, dir, addr, "--data", data)
				ready := time.Now()
				next := entered(t, ready)
				t.Logf("the broker ends within %v and serves %v later; from then to the next entry: %v",
					ended.Sub(ends).Round(time.Millisecond), ready.Sub(ended).Round(time.Millisecond), next.Sub(ready).Round(time.Millisecond))
				if err := hold.Check(); err != nil {
					t.Fatalf("the hold is lost: %v", err)
				}
				// Everybody's session is renewed before the next restart.
				entered(t, time.Now().Add(time.Duration(qosmutex.LAN().TTL)))
			}
			if err := hold.Unlock(t.Context()); err != nil {
				t.Errorf("the hold was lost: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if code := command.exit(t); code != 0 {
				t.Errorf("the command under a lock: exit code %d: %s", code, &command.stderr)
			}
		})
	}
}

// TestBrokerWithMemoryAloneIsRestarted: it knows nothing of the holders, who go on. Nobody
// enters beside them.
func TestBrokerWithMemoryAloneIsRestarted(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			url := "mqtt://" + addr
			b := startBrokerProcess(t, dir, addr, "--memory")
			holder := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.02; done; echo holder out >>log")
			eventually(t, "the holder's command runs", func() bool { return exists(filepath.Join(dir, "held")) })
			time.Sleep(time.Duration(qosmutex.LAN().Heartbeat) * 3 / 2) // by then the hold is confirmed
			if err := b.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := b.exit(t); sig == syscall.SIGTERM && code != 0 {
				t.Errorf("the broker's exit code is %d: %s", code, &b.stderr)
			}
			startBrokerProcess(t, dir, addr, "--memory")
			next := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "echo next in >>log")
			other := startNode(t, dir, url, "lock", "crane/other", "--", "true")
			if code := other.exit(t); code != 0 {
				t.Errorf("another lock of the topic: exit code %d: %s", code, &other.stderr)
			}
			if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, n := range []*node{holder, next} {
				if code := n.exit(t); code != 0 {
					t.Errorf("%v: exit code %d: %s", n.Args, code, &n.stderr)
				}
			}
			if log, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(log) != "holder out\nnext in\n" {
				t.Errorf("%s %v", log, err)
			}
		})
	}
}

// TestLoneHoldWithMemoryAlone: a broker that forgot its locks is started again, and nobody
// asks for the lock but the one that holds it, which goes on.
func TestLoneHoldWithMemoryAlone(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), address.Free(t)
	b := startBrokerProcess(t, dir, addr, "--memory")
	hold, err := member(t, "mqtt://"+addr, "one").Lock(t.Context(), "hold")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(qosmutex.LAN().Heartbeat) * 3 / 2) // by then the hold is confirmed
	if err := b.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.exit(t)
	startBrokerProcess(t, dir, addr, "--memory")
	before := hold.Remaining()
	eventually(t, "the session is renewed, or over", func() bool {
		is := hold.Remaining()
		renewed := is <= 0 || is > before
		before = is
		return renewed
	})
	if err := hold.Check(); err != nil {
		t.Error(err)
	}
}

// member opens the lock topic crane until the end of the test.
func member(t *testing.T, url, id string) *qosmutex.Topic {
	t.Helper()
	p, err := pubsub.Join(t.Context(), url, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(p) })
	topic, err := qosmutex.Open(t.Context(), p, "crane")
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// contend has members enter a resource in turn until the end of the test. entered
// waits for the first entry after an instant. Holds that overlap, and fences that do
// not rise, are errors. A hold of the last quarter of a TTL before the broker ends is not
// confirmed yet, and may be lost.
func contend(t *testing.T, resource string, members ...*qosmutex.Topic) (entered func(t *testing.T, after time.Time) time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var last time.Time
	var fence uint64
	var inside sync.Mutex
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for _, m := range members {
		all.Go(func() {
			for ctx.Err() == nil {
				h, err := m.Lock(ctx, resource)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Lock: %v", err)
					}
					return
				}
				if !inside.TryLock() {
					t.Error("two are inside")
					return
				}
				mu.Lock()
				if last = time.Now(); h.Fence() <= fence {
					t.Errorf("fence %d after %d", h.Fence(), fence)
				}
				fence = h.Fence()
				mu.Unlock()
				time.Sleep(time.Millisecond)
				inside.Unlock()
				if err := h.Unlock(context.Background()); err != nil && !errors.Is(err, qosmutex.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	return func(t *testing.T, after time.Time) time.Time {
		t.Helper()
		var at time.Time
		eventually(t, "somebody enters", func() bool {
			mu.Lock()
			defer mu.Unlock()
			at = last
			return at.After(after)
		})
		return at
	}
}
