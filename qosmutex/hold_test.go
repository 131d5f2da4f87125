package qosmutex

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
)

// Check reads the clock while the session ends and the topic gets another one: the
// new session says nothing about a hold of the old one.
func TestNewSessionDoesNotReviveAHold(t *testing.T) {
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
		var within atomic.Pointer[func()] // runs within the next reading of the laptop's clock
		start := time.Now()
		laptop, err := Open(ctx, q, "t", WithClock(func() time.Duration {
			if f := within.Swap(nil); f != nil {
				(*f)()
			}
			return time.Since(start) + time.Duration(asleep.Load())
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer laptop.Close(ctx)
		for name, read := range map[string]func(h *Hold) bool{
			"Check":     func(h *Hold) bool { return h.Check() == nil },
			"Remaining": func(h *Hold) bool { return h.Remaining() > 0 },
		} {
			h, err := laptop.Lock(ctx, "crane")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // the root confirms it: from now on it lasts as long as the session
			session := laptop.Status().Session
			renew := func() {
				asleep.Add(int64(time.Minute))
				for s := session; s == session || s == 0; s = laptop.Status().Session {
					time.Sleep(time.Second)
				}
			}
			synctest.Wait()
			within.Store(&renew)
			if read(h) {
				t.Errorf("%s passes on a hold of session %d in session %d", name, session, laptop.Status().Session)
			}
			if within.Load() != nil {
				t.Errorf("%s did not read the clock", name)
			}
			if err := h.Unlock(); !errors.Is(err, ErrLost) {
				t.Errorf("Unlock = %v, want ErrLost", err)
			}
		}
	})
}

func TestZeroHoldIsNotHeld(t *testing.T) {
	var h Hold
	for name, err := range map[string]error{
		"Check": h.Check(), "Unlock": h.Unlock(), "the cause of Context": context.Cause(h.Context()),
	} {
		if !errors.Is(err, ErrLost) || err.Error() == "" {
			t.Errorf("%s = %v, want an error that wraps ErrLost", name, err)
		}
	}
	if left := h.Remaining(); left != 0 || h.Topic() != "" {
		t.Errorf("%v remain of a hold of topic %q", left, h.Topic())
	}
}
