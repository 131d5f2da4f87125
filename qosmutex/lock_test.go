package qosmutex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/tests/poll"
)

func TestOneAtATimeWithRisingFences(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 3)
	contend(t, append(members, root), 50, &guarded{})
}

func TestTryLockOfATakenResourceIsBusy(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 1)
	h := lock(t, root, "crane")
	if _, err := members[0].TryLock(testContext(t), "crane"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), `"crane"`) {
		t.Fatalf("TryLock = %v, want ErrBusy that names it", err)
	}
	unlock(t, h)
	h, err := members[0].TryLock(testContext(t), "crane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.TryLock(testContext(t), "crane"); !errors.Is(err, ErrBusy) {
		t.Fatalf("TryLock at the root = %v, want ErrBusy", err)
	}
	unlock(t, h)
}

func TestCanceledLockLeavesNothing(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2)
	h := lock(t, root, "crane")
	cause := errors.New("no time")
	ctx, cancel := context.WithTimeoutCause(testContext(t), 30*time.Millisecond, cause)
	defer cancel()
	if _, err := members[0].Lock(ctx, "crane"); !errors.Is(err, ErrTimeout) || !errors.Is(err, cause) {
		t.Fatalf("Lock = %v, want ErrTimeout and the cause", err)
	}
	ctx, stop := context.WithCancelCause(testContext(t))
	time.AfterFunc(30*time.Millisecond, func() { stop(cause) })
	if _, err := members[0].Lock(ctx, "crane"); !errors.Is(err, ErrCanceled) || !errors.Is(err, cause) {
		t.Fatalf("Lock = %v, want ErrCanceled and the cause", err)
	}
	poll.Until(t, "nobody waits at the root", func() bool { return waitingAt(root, "crane") == 0 })
	unlock(t, h)
	h = lock(t, members[1], "crane")
	unlock(t, h)
	members[0].mu.Lock()
	defer members[0].mu.Unlock()
	if len(members[0].calls) != 0 || len(members[0].orphans) != 0 {
		t.Errorf("%d calls and %d orphans are left", len(members[0].calls), len(members[0].orphans))
	}
}

func waitingAt(topic *Topic, resource string) int {
	for _, r := range topic.Status().Resources {
		if r.Resource == resource {
			return r.Waiting
		}
	}
	return 0
}

// A context that ends at any moment around the grant must neither lose the
// resource nor leave a hold behind.
func TestCancellationRacesWithTheGrant(t *testing.T) {
	t.Parallel()
	_, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2)
	var wg sync.WaitGroup
	var g guarded
	for _, m := range members {
		wg.Go(func() {
			for i := range 150 {
				ctx, cancel := context.WithTimeout(testContext(t), time.Duration(i)*5*time.Microsecond)
				h, err := m.Lock(ctx, "crane")
				cancel()
				switch {
				case err == nil:
					g.visit(t, h)
					unlock(t, h)
				case !errors.Is(err, ErrTimeout):
					t.Errorf("Lock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	unlock(t, lock(t, members[0], "crane"))
	unlock(t, lock(t, members[1], "crane"))
}

func TestUnlockTwice(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 1)
	first := lock(t, members[0], "crane")
	ctx := first.Context()
	if err := first.Check(); err != nil {
		t.Fatal(err)
	}
	unlock(t, first)
	second := lock(t, root, "crane")
	if err := first.Unlock(); !errors.Is(err, ErrReleased) {
		t.Errorf("second Unlock = %v, want ErrReleased", err)
	}
	if err := first.Check(); !errors.Is(err, ErrReleased) {
		t.Errorf("Check = %v, want ErrReleased", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, ErrReleased) {
		t.Errorf("cause = %v, want ErrReleased", err)
	}
	if err := context.Cause(first.Context()); !errors.Is(err, ErrReleased) {
		t.Errorf("cause = %v, want ErrReleased", err)
	}
	if err := second.Check(); err != nil {
		t.Errorf("the second Unlock of the first hold freed the next: %v", err)
	}
	unlock(t, second)
	unlock(t, lock(t, members[0], "crane"))
	for _, topic := range []*Topic{root, members[0]} {
		topic.mu.Lock()
		if len(topic.inside) != 0 || topic.metrics.losses != 0 {
			t.Errorf("%s: %d inside, %d lost", topic.self.ID, len(topic.inside), topic.metrics.losses)
		}
		topic.mu.Unlock()
	}
}

func TestMoreImportantRequestsFirst(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 3)
	h := lock(t, root, "crane")
	order := make(chan int64, 3)
	var wg sync.WaitGroup
	for i, priority := range []int64{30, 10, 20} {
		wg.Go(func() {
			h := lock(t, members[i], "crane", WithPriority(priority))
			order <- h.Priority()
			unlock(t, h)
		})
	}
	poll.Until(t, "three wait", func() bool { return waitingAt(root, "crane") == 3 })
	unlock(t, h)
	wg.Wait()
	for _, want := range []int64{10, 20, 30} {
		if got := <-order; got != want {
			t.Errorf("priority %d served, want %d", got, want)
		}
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	_, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 1)
	m, ctx := members[0], testContext(t)
	type key struct{}
	boom := errors.New("boom")
	var hold *Hold
	err := m.Do(context.WithValue(ctx, key{}, 1), "crane", func(ctx context.Context, h *Hold) error {
		hold = h
		if ctx.Value(key{}) != 1 {
			t.Error("the context given to Do is not the parent")
		}
		if h.Check() != nil {
			t.Error(h.Check())
		}
		return boom
	})
	if !errors.Is(err, boom) || !errors.Is(hold.Check(), ErrReleased) {
		t.Errorf("Do = %v, hold %v", err, hold.Check())
	}
	func() {
		defer func() {
			if p := recover(); p != any(boom) {
				t.Error("the panic did not come out")
			}
		}()
		_ = m.Do(ctx, "crane", func(context.Context, *Hold) error { panic(boom) })
	}()
	unlock(t, lock(t, m, "crane"))
	if err := m.Do(ctx, "crane", func(ctx context.Context, h *Hold) error { return h.Unlock() }); err != nil {
		t.Errorf("Do with an early Unlock = %v", err)
	}
}

func TestUndeclaredResources(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "t", 1)
	for _, topic := range []*Topic{root, members[0]} {
		if _, err := topic.Lock(testContext(t), "ship"); !errors.Is(err, ErrUndeclared) || !strings.Contains(err.Error(), `["crane" "truck"]`) {
			t.Errorf("Lock = %v, want ErrUndeclared and the declared ones", err)
		}
		if _, err := topic.Lock(testContext(t), "a\x00b"); !errors.Is(err, ErrInvalidName) {
			t.Errorf("Lock = %v, want ErrInvalidName", err)
		}
	}
	free := open(t, root.p, "free", Create(), WithOpenResources())
	if _, err := free.Lock(testContext(t), Any); !errors.Is(err, ErrUndeclared) {
		t.Errorf("Lock(Any) = %v, want ErrUndeclared", err)
	}
	unlock(t, lock(t, free, "anything at all"))
}

func TestCloseReleasesAndWithdraws(t *testing.T) {
	t.Parallel()
	_, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2)
	h := lock(t, members[0], "crane")
	truck := lock(t, members[1], "truck")
	blocked := make(chan error, 1)
	go func() {
		_, err := members[0].Lock(context.Background(), "truck")
		blocked <- err
	}()
	poll.Until(t, "one waits", func() bool { return len(members[0].callsNow()) == 2 })
	closeTopic(t, members[0])
	if err := <-blocked; !errors.Is(err, ErrClosed) {
		t.Errorf("a waiting Lock returned %v, want ErrClosed", err)
	}
	if err := h.Check(); !errors.Is(err, ErrReleased) {
		t.Errorf("Check = %v, want ErrReleased", err)
	}
	if _, err := members[0].Lock(testContext(t), "crane"); !errors.Is(err, ErrClosed) {
		t.Errorf("Lock = %v, want ErrClosed", err)
	}
	if err := members[0].Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("Err = %v, want ErrClosed", err)
	}
	closeTopic(t, members[0])
	unlock(t, truck)
	unlock(t, lock(t, members[1], "crane"))
	unlock(t, lock(t, members[1], "truck"))
}

func (t *Topic) callsNow() map[uint64]*Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := map[uint64]*Hold{}
	for ref, h := range t.calls {
		calls[ref] = h
	}
	return calls
}
