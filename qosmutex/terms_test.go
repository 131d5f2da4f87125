package qosmutex

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
	"padme/tests/capture"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/proxy"
)

// becomes waits until cond holds of the topic's status.
func becomes(t *testing.T, topic *Topic, what string, cond func(s *protocol.Status) bool) {
	t.Helper()
	poll.Until(t, topic.self.ID+" "+what, func() bool {
		s := topic.Status()
		return cond(&s)
	})
}

// The root loses its connections, that to the register too, for good: the most important other one takes over,
// who holds goes on holding, and who waits is served. When the old root is back, it takes part.
func TestRootThatIsCutOffIsReplaced(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	cable := proxy.Start(t, url)
	memory := local.Memory()
	shared, ofRoot := WithRegister(memory), &cutRegister{Register: memory}
	root := open(t, join(t, cable.URL(), "root"), "t", Create(), WithRegister(ofRoot), WithResources("crane"), WithNodePriority(0))
	var members []*Topic
	for i, id := range []string{"a", "b", "c"} {
		members = append(members, open(t, join(t, url, id), "t", shared, WithNodePriority(int64(i+1))))
	}
	held := lock(t, members[2], "crane")
	poll.Until(t, "the hold is confirmed", func() bool {
		members[2].mu.Lock()
		defer members[2].mu.Unlock()
		return held.first == 0
	})
	cable.Cut()
	ofRoot.cut.Store(true)
	becomes(t, members[0], "the root", func(s *protocol.Status) bool { return s.Role == protocol.Root })
	next := make(chan *Hold)
	go func() {
		h, err := members[1].Lock(testContext(t), "crane")
		if err != nil {
			t.Error(err)
		}
		next <- h
	}()
	becomes(t, members[0], "aware of the waiting", func(s *protocol.Status) bool { return s.Resources[0].Waiting == 1 })
	if err := held.Check(); err != nil {
		t.Errorf("the hold ended with the root: %v", err)
	}
	unlock(t, held)
	h := <-next
	if h.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), held.Fence())
	}
	unlock(t, h)
	adopted := uint64(0) // on a busy machine another one may have been the root before the most important one
	for _, m := range members {
		adopted += m.Status().Counters.Adopted
	}
	if adopted == 0 {
		t.Error("no hold was adopted")
	}
	cable.Restore()
	ofRoot.cut.Store(false)
	unlock(t, lock(t, root, "crane"))
}

// A root that stood still for longer than its lease says so. A planned change is no news.
func TestALeaseThatEndsIsWarnedOf(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		log, logOfNext := &capture.Text{}, &capture.Text{}
		start, clock := time.Now(), w.clock
		var stood atomic.Int64 // nanoseconds
		w.clock = WithClock(func() time.Duration { return time.Since(start) + time.Duration(stood.Load()) })
		root := w.open("root", Create(), WithNodePriority(0), WithLogger(log.Logger()))
		defer root.close()
		w.clock = clock
		next := w.open("next", WithNodePriority(1), WithLogger(logOfNext.Logger()))
		defer next.close()
		const warning = "the lease of this root ended"
		time.Sleep(time.Minute)
		if log.Has(warning) {
			t.Fatalf("nothing has happened, and it warns: %s", log)
		}
		stood.Store(int64(2 * time.Second))
		time.Sleep(time.Minute)
		if n := log.Lines("level=WARN", warning); n != 1 || logOfNext.Has(warning) {
			t.Errorf("%d warnings, want 1: %s; the other member: %s", n, log, logOfNext)
		}
		root.close()
		time.Sleep(time.Minute)
		if s := next.Status(); s.Role != protocol.Root {
			t.Errorf("the next one is %v", s.Role)
		}
		if n := log.Lines("level=WARN", warning); n != 1 || logOfNext.Has(warning) {
			t.Errorf("%d warnings after a planned change, want 1: %s; the other member: %s", n, log, logOfNext)
		}
	})
}

// A register that is away for less than a TTL, as while voters are started, is no news; one
// that stays away is, once.
func TestARegisterThatStaysAwayIsWarnedOf(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		log, reg := &capture.Text{}, &cutRegister{Register: local.Memory()}
		root := w.open("root", Create(), WithLogger(log.Logger()), WithRegister(reg))
		defer root.close()
		const warning = "the register does not answer"
		for _, c := range []struct {
			away time.Duration
			want int
		}{{2 * time.Second, 0}, {time.Minute, 1}, {2 * time.Second, 1}, {time.Minute, 2}} {
			reg.cut.Store(true)
			time.Sleep(c.away)
			reg.cut.Store(false)
			time.Sleep(time.Minute)
			if n := log.Lines("level=WARN", warning); n != c.want {
				t.Errorf("away for %v: %d warnings in all, want %d: %s", c.away, n, c.want, log)
			}
		}
	})
}

// The register cannot be reached any more: nothing is granted once the lease is over,
// holds end with their sessions, and all goes on when it is back. That the members are
// all there does not matter.
func TestWithoutTheRegisterNothingIsGranted(t *testing.T) {
	extent.Long(t, "a register that fails")
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	reg := &cutRegister{Register: local.Memory()}
	root := open(t, join(t, url, "root"), "t", Create(), WithRegister(reg), WithResources("crane"))
	a := open(t, join(t, url, "a"), "t")
	before := lock(t, a, "crane")
	reg.cut.Store(true)
	becomes(t, root, "no root any more", func(s *protocol.Status) bool { return s.Role != protocol.Root })
	ctx, cancel := context.WithTimeout(testContext(t), 3*time.Second)
	defer cancel()
	if h, err := root.Lock(ctx, "crane"); err == nil {
		t.Errorf("in with fence %d without a lease", h.Fence())
	}
	if err := before.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("Check = %v, want ErrLost", err)
	}
	reg.cut.Store(false)
	h := lock(t, a, "crane")
	if h.Fence() <= before.Fence() {
		t.Errorf("fence %d after %d", h.Fence(), before.Fence())
	}
	unlock(t, h)
}

// cutRegister is a register that can be made unreachable.
type cutRegister struct {
	register.Register
	cut atomic.Bool
}

func (r *cutRegister) Get(ctx context.Context, key string) (register.Entry, error) {
	if r.cut.Load() {
		<-ctx.Done()
		return register.Entry{}, &register.Unavailable{Missing: []string{"v1"}, Cause: ctx.Err()}
	}
	return r.Register.Get(ctx, key)
}

func (r *cutRegister) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	if !r.cut.Load() {
		return r.Register.CompareAndSet(ctx, writes...)
	}
	<-ctx.Done()
	results := make([]register.Result, len(writes))
	for i := range results {
		results[i].Err = &register.Unavailable{Missing: []string{"v1"}, Unknown: true, Cause: ctx.Err()}
	}
	return results
}

// The retained view names the root, and the new one after a change.
func TestViewNamesTheRoot(t *testing.T) {
	t.Parallel()
	url := startWithFreshStates(t)
	cable := proxy.Start(t, url)
	shared := WithRegister(local.Memory())
	open(t, join(t, cable.URL(), "root"), "t", Create(), shared, WithResources("crane"), WithNodePriority(0))
	a := open(t, join(t, url, "a"), "t", shared, WithNodePriority(1))
	open(t, join(t, url, "b"), "t", shared, WithNodePriority(2))
	views := make(chan View, 64)
	stop, err := a.p.SubscribeRaw(testContext(t), pubsub.Main, []string{"lock", "t", "view"}, func(m pubsub.RawMessage) {
		var v View
		if err := json.Unmarshal(m.Payload, &v); err != nil {
			t.Error(err)
		}
		views <- v
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	await := func(root string) {
		t.Helper()
		for ctx := testContext(t); ; {
			select {
			case v := <-views:
				if v.Root == root {
					return
				}
			case <-ctx.Done():
				t.Fatalf("no view names root %s", root)
			}
		}
	}
	await("root")
	cable.Cut()
	await("a")
}

// With trusted wills the next one is in as soon as the broker says that the holder
// has ended: here before half of its session is over.
func TestTrustedWillEndsAHoldAtOnce(t *testing.T) {
	extent.Long(t, "three TTLs")
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	timing := LAN()
	timing.TTL, timing.Heartbeat = 6*time.Second, 1500*time.Millisecond
	opts := []Option{WithTiming(timing), WithTrustedWills()}
	root := open(t, join(t, url, "root"), "t", append(opts, Create(), WithResources("crane"))...)
	cable := proxy.Start(t, url)
	doomed := open(t, join(t, cable.URL(), "doomed"), "t", opts...)
	lock(t, doomed, "crane")
	cable.Cut()
	ctx, cancel := context.WithTimeout(testContext(t), 3*time.Second)
	defer cancel()
	h, err := root.Lock(ctx, "crane")
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, h)
}

// A late will does not end what was started since.
func TestLateWillIsNotMeant(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root := open(t, join(t, url, "root"), "t", Create(), WithResources("crane"), WithTrustedWills())
	p := join(t, url, "a")
	a := open(t, p, "t")
	h := lock(t, a, "crane")
	root.willOf("a", a.self.Incarnation+1) // of a participant that never opened the topic
	root.willOf("nobody", 1)
	if n := root.Status().Counters.Expiries; n != 0 {
		t.Errorf("%d sessions expired", n)
	}
	root.willOf("a", p.Incarnation())
	if n := root.Status().Counters.Expiries; n != 1 {
		t.Errorf("the right will: %d sessions expired, want 1", n)
	}
	<-h.Context().Done()
}
