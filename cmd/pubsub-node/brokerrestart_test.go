//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
)

// TestBrokerRestartCostsNoHold: the broker ends, or is killed, and is started again at
// once. Holders go on, a command under a lock too; and those that contend for another
// lock of the topic enter again soon after the broker serves.
func TestBrokerRestartCostsNoHold(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			url, data := "mqtt://"+addr, filepath.Join(dir, "data")
			b := startBrokerProcess(t, dir, addr, "--data", data)
			command := startNode(t, dir, url, "lock", "crane/command", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.02; done")
			poll.Until(t, "the command runs", func() bool { return exists(filepath.Join(dir, "held")) })
			one, other := member(t, url, "one"), member(t, url, "other")
			hold, err := one.Lock(t.Context(), "hold")
			if err != nil {
				t.Fatal(err)
			}
			entered := contend(t, "contended", one, other)
			entered(t, time.Now().Add(qosmutex.LAN().Heartbeat*3/2)) // by then the holds are confirmed
			restarts := extent.Of(4, 10)
			for range restarts {
				ends := time.Now()
				if err := b.Cmd.Process.Signal(sig); err != nil {
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
				entered(t, time.Now().Add(qosmutex.LAN().TTL))
			}
			if err := hold.Unlock(); err != nil {
				t.Errorf("the hold was lost: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if code := command.exit(t); code != 0 {
				t.Errorf("the command under a lock: exit code %d: %s", code, &command.Err)
			}
		})
	}
}

// TestBrokerWithMemoryAloneIsRestarted: it knows nothing of the holders. A member goes on,
// a client has lost its hold, and nobody enters beside either.
func TestBrokerWithMemoryAloneIsRestarted(t *testing.T) {
	extent.Long(t, "two restarts")
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			url := "mqtt://" + addr
			b := startBrokerProcess(t, dir, addr, "--memory")
			hold, err := member(t, url, "one").Lock(t.Context(), qosmutex.DefaultResource)
			if err != nil {
				t.Fatal(err)
			}
			client := startNode(t, dir, url, "lock", "crane/other", "--", "sh", "-c", "trap 'echo client out >>log; exit' TERM; touch held; while :; do sleep 0.02; done")
			poll.Until(t, "the client's command runs", func() bool { return exists(filepath.Join(dir, "held")) })
			time.Sleep(qosmutex.LAN().Heartbeat * 3 / 2) // by then the hold is confirmed
			if err := b.Cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := b.exit(t); sig == syscall.SIGTERM && code != 0 {
				t.Errorf("the broker's exit code is %d: %s", code, &b.Err)
			}
			startBrokerProcess(t, dir, addr, "--memory")
			next := startNode(t, dir, url, "lock", "crane/other", "--", "sh", "-c", "echo next in >>log")
			behind := startNode(t, dir, url, "lock", "crane", "--", "touch", "behind")
			if code := client.exit(t); code != exitLost {
				t.Errorf("the client's exit code is %d, want %d: %s", code, exitLost, &client.Err)
			}
			if code := next.exit(t); code != 0 {
				t.Errorf("%v: exit code %d: %s", next.Args, code, &next.Err)
			}
			if log, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(log) != "client out\nnext in\n" {
				t.Errorf("%s %v", log, err)
			}
			if exists(filepath.Join(dir, "behind")) {
				t.Error("somebody entered beside the member")
			}
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
			if code := behind.exit(t); code != 0 {
				t.Errorf("%v: exit code %d: %s", behind.Args, code, &behind.Err)
			}
		})
	}
}

// TestLoneHoldWithMemoryAlone: a broker that forgot its locks is started again, and nobody
// asks for the lock but the one that holds it, which goes on.
func TestLoneHoldWithMemoryAlone(t *testing.T) {
	extent.Long(t, "a TTL")
	t.Parallel()
	dir, addr := t.TempDir(), address.Free(t)
	b := startBrokerProcess(t, dir, addr, "--memory")
	hold, err := member(t, "mqtt://"+addr, "one").Lock(t.Context(), "hold")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(qosmutex.LAN().Heartbeat * 3 / 2) // by then the hold is confirmed
	if err := b.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.exit(t)
	startBrokerProcess(t, dir, addr, "--memory")
	before := hold.Remaining()
	poll.Until(t, "the session is renewed, or over", func() bool {
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
				if err := h.Unlock(); err != nil && !errors.Is(err, qosmutex.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	return func(t *testing.T, after time.Time) time.Time {
		t.Helper()
		var at time.Time
		poll.Until(t, "somebody enters", func() bool {
			mu.Lock()
			defer mu.Unlock()
			at = last
			return at.After(after)
		})
		return at
	}
}

// TestBrokerRestartCostsNoClientsHold: the broker with its gateway ends, or is killed, and is
// started again at once. A client that holds by it goes on with its fence, nobody enters
// meanwhile, and whoever waits is next.
func TestBrokerRestartCostsNoClientsHold(t *testing.T) {
	extent.Long(t, "two restarts")
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 3 { // on a machine that is so busy that the time of the hold is over first
				if clientsHoldGoesOn(t, sig) {
					return
				}
			}
			t.Error("the broker was never there again in the time of a hold")
		})
	}
}

func clientsHoldGoesOn(t *testing.T, sig syscall.Signal) bool {
	dir, addr := t.TempDir(), address.Free(t)
	url, data := "mqtt://"+addr, filepath.Join(dir, "data")
	b := startBrokerProcess(t, dir, addr, "--data", data)
	holder, other, m := dialed(t, url, "holder"), dialed(t, url, "other"), member(t, url, "member")
	hold, err := holder.Lock(t.Context(), "hold")
	if err != nil {
		t.Fatal(err)
	}
	fence := hold.Fence()
	type entry struct {
		fence uint64
		err   error
	}
	next := make(chan entry, 2)
	for _, lock := range []func(context.Context, string, ...qosmutex.LockOption) (*qosmutex.Hold, error){other.Lock, m.Lock} {
		go func() {
			h, err := lock(t.Context(), "hold")
			if err != nil {
				next <- entry{err: err}
				return
			}
			next <- entry{h.Fence(), h.Unlock()}
		}()
	}
	entered := contend(t, "contended", m)
	const restarts = 4
	for range restarts {
		killed, left := time.Now(), hold.Remaining()
		if err := b.Cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		b.exit(t)
		b = startBrokerProcess(t, dir, addr, "--data", data)
		ready := time.Now()
		t.Logf("from when the broker serves to the next entry to another lock: %v", entered(t, ready).Sub(ready).Round(time.Millisecond))
		renewed := hold.Remaining()
		poll.Until(t, "the hold is renewed by the broker that was started again", func() bool {
			is := hold.Remaining()
			longer := is > renewed
			renewed = is
			return longer || is <= 0
		})
		err := hold.Check()
		if took := time.Since(killed); err != nil && took > left {
			t.Logf("the hold had another %v, and the broker took %v", left, took)
			return false
		}
		if err != nil || hold.Fence() != fence {
			t.Fatalf("the hold, of fence %d, has fence %d: %v", fence, hold.Fence(), err)
		}
		entered(t, time.Now().Add(qosmutex.LAN().TTL)) // a hold that is not known would be over
		if err := hold.Check(); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-next:
			t.Fatalf("somebody entered beside it: %+v", e)
		default:
		}
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	for range 2 {
		e := <-next
		if e.err != nil || e.fence <= fence {
			t.Errorf("the next one has fence %d after %d: %v", e.fence, fence, e.err)
		}
		fence = e.fence
	}
	return true
}

// dialed is a client of the lock topic crane until the end of the test.
func dialed(t *testing.T, url, id string) *qosmutex.Client {
	t.Helper()
	p, err := pubsub.Join(t.Context(), url, id, pubsub.Unannounced())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(p) })
	c, err := qosmutex.Dial(t.Context(), p, "crane")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBrokerRestartedHearsWhatIsOver: a command under a lock ends while there is no broker.
// `lock` stays until it has told that the lock is free.
func TestBrokerRestartedHearsWhatIsOver(t *testing.T) {
	extent.Long(t, "a restart")
	t.Parallel()
	for range 5 { // on a machine that is so busy that the lease is over first
		if hearsWhatIsOver(t) {
			return
		}
	}
	t.Error("each lease was over before the broker was there again")
}

// hearsWhatIsOver reports whether the broker was there again before the lease was over.
func hearsWhatIsOver(t *testing.T) bool {
	dir, addr := t.TempDir(), address.Free(t)
	url, data := "mqtt://"+addr, filepath.Join(dir, "data")
	b := startBrokerProcess(t, dir, addr, "--data", data)
	command := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.02; done")
	poll.Until(t, "the command runs", func() bool { return exists(filepath.Join(dir, "held")) })
	killed := time.Now()
	if err := b.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.exit(t)
	if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond) // it says why it waits
	startBrokerProcess(t, dir, addr, "--data", data)
	if code := command.exit(t); code != 0 || !strings.Contains(command.Err.String(), "to tell it that the lock is free") {
		t.Errorf("exit code %d: %s", code, &command.Err)
	}
	if time.Since(killed) > 4*time.Second { // it renewed its lease a second before that at most
		return false
	}
	next := startNode(t, dir, url, "lock", "-n", "crane", "--", "true")
	if code := next.exit(t); code != 0 {
		t.Errorf("%v: exit code %d: %s", next.Args, code, &next.Err)
	}
	return true
}
