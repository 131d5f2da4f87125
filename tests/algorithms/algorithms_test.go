// Package algorithms_test runs every algorithm over a real broker.
package algorithms_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/tests/brokers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokers.Ending(m), goleak.Cleanup(func(code int) {
		brokers.Report()
		os.Exit(code)
	}))
}

const (
	entries  = 8 // of each participant
	resource = "crane"
)

var members = []string{"a", "b", "c", "d", "e"}

// Every algorithm, on TCP connections to a real broker, each participant with a
// session of its own, and one more client that only listens to what is said
// inside.
func TestEveryAlgorithmExcludesOverTheBroker(t *testing.T) {
	for _, a := range papers.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			url := brokers.Use(t) // ends after the participants
			o := observe(ctx, t, url)
			defer o.close(ctx)
			var all sync.WaitGroup
			together := newTurns(ctx)
			workers := openAll(ctx, t, url, a)
			if brokers.Chosen() == brokers.NATS {
				o.settle(ctx, t, workers[0].topic)
			}
			for _, w := range workers {
				turns := newTurns(ctx)
				turns.left.Store(entries)
				if chancy(a) {
					turns = together
				}
				run := func() {
					if err := w.work(turns); err != nil {
						t.Error(err)
					}
				}
				if a.Name == "maekawa-naive" { // deadlocks, as it should, unless they come one by one
					run()
				} else {
					all.Go(run)
				}
			}
			all.Wait()
			o.published(ctx, t, o.check(t))
		})
	}
}

// chancy reports whether the algorithm promises nobody a turn, only that somebody
// has one. Who is unlucky backs off for up to 2^10 round trips.
func chancy(a protocol.Algorithm) bool { return strings.HasPrefix(a.Name, "voting") }

// turns are what some workers are to do together. Who still waits when it is done
// gives up.
type turns struct {
	left atomic.Int64
	ctx  context.Context
	end  context.CancelFunc
}

func newTurns(ctx context.Context) *turns {
	all := &turns{}
	all.ctx, all.end = context.WithCancel(ctx)
	all.left.Store(int64(entries * len(members)))
	return all
}

// worker is a participant that enters again and again.
type worker struct {
	p     *pubsub.Participant
	topic qosmutex.Locker
}

// openAll opens the topic at every member, at the same time: no algorithm may
// depend on who comes first.
func openAll(ctx context.Context, t *testing.T, url string, a protocol.Algorithm) []worker {
	t.Helper()
	workers, errs := make([]worker, len(members)), make([]error, len(members))
	var all sync.WaitGroup
	for i := range members {
		all.Go(func() { workers[i], errs[i] = openOne(ctx, url, i, a, pubsub.WithDomain(brokers.Domain(t))) })
	}
	all.Wait()
	for _, w := range workers {
		t.Cleanup(func() { w.close(context.WithoutCancel(ctx)) })
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", members[i], err)
		}
	}
	return workers
}

func openOne(ctx context.Context, url string, i int, a protocol.Algorithm, at pubsub.Option) (w worker, err error) {
	if w.p, err = pubsub.Join(ctx, url, members[i], at); err != nil {
		return w, err
	}
	if w.topic, err = openTopic(ctx, w.p, i, a); err != nil {
		w.topic = nil // and no nil *Topic
	}
	return w, err
}

func openTopic(ctx context.Context, p *pubsub.Participant, i int, a protocol.Algorithm) (qosmutex.Locker, error) {
	if a.Static {
		return papers.Open(p, "yard", papers.Config{
			Algorithm: a, Members: members, Resources: []string{resource}, Priority: int64(i), Hop: 2 * time.Millisecond,
		})
	}
	options := []qosmutex.Option{qosmutex.WithResources(resource), qosmutex.WithTiming(qosmutex.Local()), qosmutex.WithNodePriority(int64(i))}
	if i == 0 {
		options = append(options, qosmutex.Create())
	}
	return qosmutex.Open(ctx, p, "yard", options...)
}

func (w worker) close(ctx context.Context) {
	if w.topic != nil {
		_ = w.topic.Close(ctx)
	}
	if w.p != nil {
		_ = w.p.Close(ctx)
	}
}

// work enters and says so from inside, until there are no turns left. Posts arrive at
// the broker in order, and lock messages are posts: whoever enters later is heard later.
func (w worker) work(turns *turns) error {
	for turns.ctx.Err() == nil {
		err := w.topic.Do(turns.ctx, resource, func(_ context.Context, h *qosmutex.Hold) error {
			left := turns.left.Add(-1)
			if left < 0 {
				return nil
			}
			if err := w.p.Post(observerID, "inside", fmt.Appendf(nil, "in %d", h.Fence())); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // the work
			if err := w.p.Post(observerID, "inside", fmt.Appendf(nil, "out %d", h.Fence())); err != nil {
				return err
			}
			if left == 0 {
				turns.end()
			}
			return nil
		}, qosmutex.WithHold(10*time.Millisecond))
		if err != nil && !turns.over(err) {
			return fmt.Errorf("%s: %w", w.p.ID(), err)
		}
	}
	return nil
}

// over reports whether err only says that there was nothing more to wait for.
func (t *turns) over(err error) bool {
	return t.left.Load() <= 0 && errors.Is(err, qosmutex.ErrCanceled)
}
