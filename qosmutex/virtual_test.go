package qosmutex

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/tests/brokers"
	"padme/tests/bubble"
)

// virtually runs f in virtual time with a broker, in a year in which one may create topics.
func virtually(t *testing.T, f func(t *testing.T, join func(id string) *pubsub.Participant, clock Option)) {
	virtuallyAs(t, func(t *testing.T, join func(string, ...pubsub.Option) *pubsub.Participant, clock Option) {
		f(t, func(id string) *pubsub.Participant { return join(id) }, clock)
	})
}

// virtuallyAs is virtually for participants that have options.
func virtuallyAs(t *testing.T, f func(t *testing.T, join func(id string, opts ...pubsub.Option) *pubsub.Participant, clock Option)) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)))
		start := time.Now()
		clock := WithClock(func() time.Duration { return time.Since(start) })
		ctx := context.Background()
		b, err := broker.Start(ctx, broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(ctx)
		f(t, func(id string, opts ...pubsub.Option) *pubsub.Participant {
			p, err := pubsub.Join(ctx, "", id, append(opts, pubsub.WithDialer(b.Dial))...)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}, clock)
	})
}

func TestHoldLastsAsLongAsHeartbeatsDo(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("root"), join("a")
		defer p.Close(ctx)
		defer q.Close(ctx)
		root, err := Open(ctx, p, "t", Create(), WithResources("crane"), WithNodePriority(0), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(ctx)
		a, err := Open(ctx, q, "t", clock)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(ctx)
		h, err := a.Lock(ctx, "crane")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Minute)
			if err := h.Check(); err != nil {
				t.Fatal(err)
			}
		}
		waiting := make(chan *Hold)
		go func() {
			h, err := root.Lock(ctx, "crane")
			if err != nil {
				t.Error(err)
			}
			waiting <- h
		}()
		time.Sleep(10 * time.Minute)
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		h = <-waiting
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
}

// A machine that was suspended has a clock that jumped and timers that did not.
func TestSuspendedHolderFindsItsHoldLost(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("root"), join("laptop")
		defer p.Close(ctx)
		defer q.Close(ctx)
		root, err := Open(ctx, p, "t", Create(), WithResources("crane"), WithNodePriority(0), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(ctx)
		var asleep atomic.Int64
		start := time.Now()
		laptop, err := Open(ctx, q, "t", WithClock(func() time.Duration { return time.Since(start) + time.Duration(asleep.Load()) }))
		if err != nil {
			t.Fatal(err)
		}
		defer laptop.Close(ctx)
		for i := range 10 { // at different times between two heartbeats
			check := i == 0
			h, err := laptop.Lock(ctx, "crane")
			if err != nil {
				t.Fatal(err)
			}
			held := h.Context()
			time.Sleep(10*time.Second + time.Duration(i)*70*time.Millisecond)
			woke := time.Now()
			asleep.Add(int64(time.Minute))
			if check {
				if err := h.Check(); !errors.Is(err, ErrLost) {
					t.Errorf("Check right after waking up = %v, want ErrLost", err)
				}
			}
			<-held.Done()
			if late := time.Since(woke); late > LAN().TTL/10 || check && late > 0 {
				t.Errorf("the context was canceled %v after waking up", late)
			}
			if !errors.Is(context.Cause(held), ErrLost) {
				t.Errorf("cause = %v", context.Cause(held))
			}
			if err := h.Unlock(); !errors.Is(err, ErrLost) {
				t.Errorf("Unlock = %v, want ErrLost", err)
			}
			if h, err = laptop.Lock(ctx, "crane"); err != nil { // in a new session
				t.Fatal(err)
			}
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCreateRefusesAClockThatWasNotSet(t *testing.T) {
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) { // the year is 2000
		ctx := context.Background()
		b, err := broker.Start(ctx, broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(ctx)
		p, err := pubsub.Join(ctx, "", "a", pubsub.WithDialer(b.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(ctx)
		start := time.Now()
		if _, err := Open(ctx, p, "t", Create(), WithClock(func() time.Duration { return time.Since(start) })); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("Open = %v, want ErrInvalidConfig", err)
		}
	})
}
