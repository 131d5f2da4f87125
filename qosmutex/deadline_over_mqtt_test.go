package qosmutex

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/tests/poll"
)

// Deadlines that come just when the request is granted: whatever Lock says, nobody
// stays inside who was told that it is not.
func TestNoHoldLeaksAtItsDeadline(t *testing.T) {
	t.Parallel()
	for _, m := range []string{"deadline-forward-forward-forward", "fair-replace-use-use", "aging-forward-forward-forward"} {
		t.Run(m, func(t *testing.T) {
			root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 3, WithModels(models(t, m)))
			topics := append(members, root)
			unlock(t, lock(t, root, "crane")) // until then there may be somebody of before
			var g guarded
			var all sync.WaitGroup
			var got, missed, unattainable atomic.Int32
			for i, topic := range topics {
				for range 3 {
					all.Go(func() {
						for range 60 {
							within := time.Duration(rand.N(8000)) * time.Microsecond
							begin := time.Now()
							h, err := topic.Lock(testContext(t), "crane", WithDeadline(begin.Add(within)), WithHold(time.Duration(i+1)*time.Millisecond))
							switch {
							case err == nil:
								got.Add(1)
								g.visit(t, h)
								unlock(t, h)
							case errors.Is(err, ErrDeadlineMissed):
								missed.Add(1)
							case errors.Is(err, ErrDeadlineUnattainable):
								unattainable.Add(1)
							default:
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			t.Logf("got %d, missed %d, unattainable %d", got.Load(), missed.Load(), unattainable.Load())
			if got.Load() == 0 || missed.Load()+unattainable.Load() == 0 {
				t.Error("all came in time, or none: that says nothing")
			}
			for _, topic := range topics {
				unlock(t, lock(t, topic, "crane"))
				poll.Until(t, "nothing waits or is inside", func() bool {
					topic.mu.Lock()
					defer topic.mu.Unlock()
					return len(topic.calls) == 0 && len(topic.inside) == 0
				})
				for _, r := range topic.Status().Resources {
					if r.Inside || r.Waiting > 0 {
						t.Errorf("%s: %+v", topic.self.ID, r)
					}
				}
			}
		})
	}
}

// Models change while requests with deadlines come and go.
func TestModelsChangeWhileDeadlinesWait(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 3)
	topics := append(members, root)
	var g guarded
	var all sync.WaitGroup
	done := make(chan struct{})
	var changes atomic.Int32
	var changer sync.WaitGroup
	changer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			priority := []string{"level", "deadline", "fair", "aging"}[i%4]
			passing := []string{"forward-forward-forward", "replace-use-use", "forward-use-forward"}[i%3]
			if err := topics[i%4].Configure(testContext(t), WithModels(models(t, priority+"-"+passing))); err != nil {
				t.Error(err)
			}
			changes.Add(1)
		}
	})
	var got atomic.Int32
	for _, topic := range topics {
		for range 3 {
			all.Go(func() {
				for i := range 60 {
					opts := []LockOption{WithHold(time.Millisecond)}
					if i%3 != 0 {
						opts = append(opts, WithDeadline(time.Now().Add(time.Duration(rand.N(60))*time.Millisecond)))
					}
					h, err := topic.Lock(testContext(t), "crane", opts...)
					switch {
					case err == nil:
						got.Add(1)
						g.visit(t, h)
						unlock(t, h)
					case i%3 == 0 || !errors.Is(err, ErrDeadlineMissed) && !errors.Is(err, ErrDeadlineUnattainable):
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	close(done)
	changer.Wait()
	t.Logf("%d entries, %d changes", got.Load(), changes.Load())
	for _, topic := range topics {
		unlock(t, lock(t, topic, "crane"))
	}
}

// What cannot be promised is refused at once, not when the deadline comes.
func TestUnattainableIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 2, WithModels(models(t, "deadline-forward-forward-forward")))
	h := lock(t, root, "crane", WithHold(time.Minute))
	for _, topic := range append(members, root) {
		begin := time.Now()
		_, err := topic.Lock(testContext(t), "crane", WithDeadline(begin.Add(30*time.Second)), WithHold(time.Second))
		if !errors.Is(err, ErrDeadlineUnattainable) || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: %v after %v", topic.self.ID, err, time.Since(begin))
		}
	}
	unlock(t, h)
	for _, topic := range append(members, root) {
		unlock(t, lock(t, topic, "crane", WithDeadline(time.Now().Add(30*time.Second)), WithHold(time.Second)))
	}
}

// The earliest deadline is served first over MQTT as well, with deadlines that were
// given in another order.
func TestEarliestDeadlineFirst(t *testing.T) {
	t.Parallel()
	root, members := group(t, startBroker(t, "127.0.0.1:0").URL(), "t", 3, WithModels(models(t, "deadline-replace-use-use")))
	h := lock(t, root, "crane", WithHold(20*time.Second))
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	begin := time.Now()
	for i, topic := range []*Topic{members[2], members[0], members[1]} {
		all.Go(func() {
			h, err := topic.Lock(testContext(t), "crane", WithDeadline(begin.Add(time.Duration(50-i)*time.Second)), WithHold(10*time.Millisecond))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, topic.self.ID)
			mu.Unlock()
			unlock(t, h)
		})
	}
	poll.Until(t, "all three wait", func() bool {
		for _, r := range root.Status().Resources {
			if r.Resource == "crane" {
				return r.Waiting == 3
			}
		}
		return false
	})
	unlock(t, h)
	all.Wait()
	if got := fmt.Sprint(order); got != "[b a c]" {
		t.Errorf("served %v", got)
	}
}
