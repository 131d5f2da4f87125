package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// patience is after what a wait counts as a hang. Everybody is in again much sooner
// after a fault: back-offs and handshakes of the client, RabbitMQ's start, elections
// for every subscription of a NATS cluster. How much depends on the machine.
const patience = 4 * time.Minute

// members contend for one resource.
const members = 4

// A workload is members that lock one resource over and over, and what they saw.
type workload struct {
	topics  []*qosmutex.Topic
	watcher *observer
	stop    context.CancelFunc
	working sync.WaitGroup
	guard   guard
	entered [members]atomic.Int64
	lost    atomic.Int64
	failed  chan error // has the first
}

// guard is what the lock protects: it judges the holds that are valid.
type guard struct {
	mu     sync.Mutex
	inside string
	until  func() error // of who is inside: nil while its hold is valid
	fence  uint64
}

// enter fails if somebody else with a valid hold is inside, or the fence is old.
func (g *guard) enter(who string, h *qosmutex.Hold) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside != "" && g.until() == nil && h.Check() == nil {
		return fmt.Errorf("%s entered with fence %d while %s is inside with fence %d", who, h.Fence(), g.inside, g.fence)
	}
	if h.Fence() <= g.fence {
		return fmt.Errorf("%s entered with fence %d after %d", who, h.Fence(), g.fence)
	}
	g.inside, g.until, g.fence = who, h.Check, h.Fence()
	return nil
}

func (g *guard) leave(h *qosmutex.Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fence == h.Fence() {
		g.inside = ""
	}
}

func newWorkload(t *testing.T, url func(member int) string) *workload {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w := &workload{failed: make(chan error, 1)}
	for i := range members {
		id := fmt.Sprintf("m%d", i)
		p := join(ctx, t, url(i), id)
		closing(t, id, p.Close)
		opts := []qosmutex.Option{qosmutex.WithTiming(qosmutex.LAN()), qosmutex.WithNodePriority(int64(i))}
		if i == 0 {
			opts = append(opts, qosmutex.Create(), qosmutex.WithResources("crane"))
		}
		topic, err := qosmutex.Open(ctx, p, "yard", opts...)
		if err != nil {
			t.Fatal(err)
		}
		closing(t, "the topic of "+id, topic.Close)
		w.topics = append(w.topics, topic)
	}
	w.watcher = observe(ctx, t, url(members))
	working, stop := context.WithCancel(context.Background())
	w.stop = stop
	for i, topic := range w.topics {
		w.working.Go(func() { w.work(working, i, topic) })
	}
	t.Cleanup(func() {
		stop()
		w.working.Wait()
	})
	return w
}

// join tries again when it is refused: a cluster under load has a bound on how long a
// subscription may take it, and Join does not retry.
func join(ctx context.Context, t *testing.T, url, id string) *pubsub.Participant {
	t.Helper()
	for {
		p, err := pubsub.Join(ctx, url, id, pubsub.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil))))
		if err == nil {
			return p
		}
		t.Logf("%s joins: %v", id, err)
		if !errors.Is(err, pubsub.ErrRefused) || ctx.Err() != nil {
			t.FailNow()
		}
	}
}

func closing(t *testing.T, what string, end func(context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := end(ctx); err != nil {
			t.Errorf("closing %s: %v", what, err)
		}
	})
}

// work locks and unlocks until ctx ends or something is wrong.
func (w *workload) work(ctx context.Context, i int, topic *qosmutex.Topic) {
	for ctx.Err() == nil {
		h, err := topic.Lock(ctx, "crane", qosmutex.WithPriority(0)) // the same for all, so that nobody is to starve
		if errors.Is(err, qosmutex.ErrCanceled) {
			return
		}
		if err == nil && h.Check() == nil {
			err = w.guard.enter(fmt.Sprintf("m%d", i), h)
			w.entered[i].Add(1)
			w.guard.leave(h)
		}
		if err == nil {
			if err = h.Unlock(); errors.Is(err, qosmutex.ErrLost) {
				w.lost.Add(1)
				err = nil
			}
		}
		if err != nil {
			select {
			case w.failed <- fmt.Errorf("m%d: %w", i, err):
			default:
			}
			return
		}
	}
}

// served waits until every member has entered once more.
func (w *workload) served(t *testing.T, when string) {
	t.Helper()
	began := time.Now()
	var before [members]int64
	for i := range before {
		before[i] = w.entered[i].Load()
	}
	for i := range before {
		for w.entered[i].Load() <= before[i] {
			select {
			case err := <-w.failed:
				t.Fatalf("%s: %v", when, err)
			default:
			}
			if time.Since(began) > patience {
				for _, topic := range w.topics {
					t.Logf("%+v", topic.Status())
				}
				t.Fatalf("%s: m%d was not served within %v", when, i, patience)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	t.Logf("%s: everybody was in within %v", when, time.Since(began).Round(time.Millisecond))
}

// end stops everybody, and has the observer find the resource free.
func (w *workload) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.working.Wait()
	select {
	case err := <-w.failed:
		t.Error(err)
	default:
	}
	var all int64
	for i := range w.entered {
		all += w.entered[i].Load()
	}
	w.watcher.free(t, w.guard.fence)
	t.Logf("%d entries, %d holds lost, no overlap, fences up to %d; an observer heard %d states", all, w.lost.Load(), w.guard.fence, w.watcher.heard.Load())
}
