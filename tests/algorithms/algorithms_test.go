// Package algorithms_test runs every algorithm over a real broker.
package algorithms_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	entries  = 8 // of each participant
	resource = "crane"
)

var members = []string{"a", "b", "c", "d", "e"}

// Every algorithm, on TCP connections to a real broker, each participant with a
// session of its own, and one more client that only listens to what is said
// inside.
func TestEveryAlgorithmExcludesOverTheBroker(t *testing.T) {
	for _, a := range qosmutex.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close(context.WithoutCancel(ctx)) }) // after the participants
			o := observe(ctx, t, b.URL())
			defer o.close(ctx)
			var all sync.WaitGroup
			for _, w := range openAll(ctx, t, b.URL(), a) {
				run := func() {
					if err := w.work(ctx); err != nil {
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

// worker is a participant that enters again and again.
type worker struct {
	p     *pubsub.Participant
	topic *qosmutex.Topic
}

// openAll opens the topic at every member, at the same time: no algorithm may
// depend on who comes first.
func openAll(ctx context.Context, t *testing.T, url string, a protocol.Algorithm) []worker {
	t.Helper()
	workers, errs := make([]worker, len(members)), make([]error, len(members))
	var all sync.WaitGroup
	for i := range members {
		all.Go(func() { workers[i], errs[i] = openOne(ctx, url, i, a) })
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

func openOne(ctx context.Context, url string, i int, a protocol.Algorithm) (w worker, err error) {
	options := []qosmutex.Option{
		qosmutex.WithAlgorithm(a), qosmutex.WithResources(resource), qosmutex.WithTiming(qosmutex.Local()),
		qosmutex.WithNodePriority(int64(i)),
	}
	if a.Static {
		options = append(options, qosmutex.WithMembers(members...))
	} else if i == 0 {
		options = append(options, qosmutex.Found())
	}
	if w.p, err = pubsub.Join(ctx, url, members[i]); err == nil {
		w.topic, err = qosmutex.Open(ctx, w.p, "yard", options...)
	}
	return w, err
}

func (w worker) close(ctx context.Context) {
	if w.topic != nil {
		_ = w.topic.Close(ctx)
	}
	if w.p != nil {
		_ = w.p.Close(ctx)
	}
}

// work enters and says so from inside. Posts arrive at the broker in order, and lock
// messages are posts: whoever enters later is heard later.
func (w worker) work(ctx context.Context) error {
	for range entries {
		err := w.topic.Do(ctx, resource, func(_ context.Context, h *qosmutex.Hold) error {
			if err := w.p.Post(observerID, "inside", fmt.Appendf(nil, "in %d", h.Fence())); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // the work
			return w.p.Post(observerID, "inside", fmt.Appendf(nil, "out %d", h.Fence()))
		}, qosmutex.WithHold(10*time.Millisecond))
		if err != nil {
			return fmt.Errorf("%s: %w", w.p.ID(), err)
		}
	}
	return nil
}
