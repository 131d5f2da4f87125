package qosmutex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// A member and a client stand in one line, and what is written for one of them works with
// the other.
func TestClientLocksLikeAMember(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		ctx := context.Background()
		var last uint64
		for round, of := range []qosmutex.Locker{e.Client, crane, e.Client, crane} {
			if of.Name() != "crane" {
				t.Errorf("name %q", of.Name())
			}
			h := s.lock(of, "hook", qosmutex.WithPriority(int64(round)))
			if h.Fence() <= last || h.Resource() != "hook" || h.Topic() != "crane" || h.Priority() != int64(round) || h.Check() != nil {
				t.Errorf("round %d: %q of %q with fence %d after %d, priority %d: %v", round, h.Resource(), h.Topic(), h.Fence(), last, h.Priority(), h.Check())
			}
			last = h.Fence()
			for _, other := range []qosmutex.Locker{e.Client, crane} {
				if _, err := other.TryLock(ctx, "hook"); !errors.Is(err, qosmutex.ErrBusy) {
					t.Errorf("TryLock beside a holder: %v", err)
				}
			}
			s.unlock(h)
			if err := h.Check(); !errors.Is(err, qosmutex.ErrReleased) {
				t.Errorf("after Unlock: %v", err)
			}
			if err := h.Unlock(); !errors.Is(err, qosmutex.ErrReleased) {
				t.Errorf("a second Unlock: %v", err)
			}
			entered := false
			if err := of.Do(ctx, "hook", func(ctx context.Context, h *qosmutex.Hold) error {
				entered = h.Check() == nil && ctx.Err() == nil
				return nil
			}); err != nil || !entered {
				t.Errorf("Do: entered %t, %v", entered, err)
			}
		}
	})
}

// The most important is next, whether member or client.
func TestClientsAreServedByPriority(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		first := s.client("client", "crane")
		defer first.close()
		s.warm(first)
		h := s.lock(crane, "default")
		var mu sync.Mutex
		var order []int64
		var all sync.WaitGroup
		for i := range 5 {
			e := s.client(fmt.Sprint("client-", i), "crane")
			defer e.close()
			all.Go(func() {
				h := s.lock(e.Client, "default", qosmutex.WithPriority(int64(10-i)))
				mu.Lock()
				order = append(order, h.Priority())
				mu.Unlock()
				s.unlock(h)
			})
			time.Sleep(200 * time.Millisecond)
		}
		s.unlock(h)
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 5 {
			t.Errorf("served in the order of priorities %v", order)
		}
	})
}

// Nobody would leave what is granted to a request that was given up.
func TestRequestThatWasGivenUpIsNotRaised(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		for name, of := range map[string]qosmutex.Locker{"client": e.Client, "member": crane} {
			held := s.lock(crane, "a")
			r, err := of.Ask("a", qosmutex.WithPriority(90))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := r.Wait(ctx); !errors.Is(err, qosmutex.ErrTimeout) {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := r.Wait(context.Background()); !errors.Is(err, qosmutex.ErrTimeout) { // it must not wait for ever
				t.Fatalf("%s: the second time: %v", name, err)
			}
			if err := r.SetPriority(10); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			s.unlock(held)
			s.unlock(s.lock(crane, "a"))
		}
	})
}

// A request that waits becomes the most important one, whoever asked.
func TestWaitingRequestIsRaised(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		s.warm(e)
		for name, of := range map[string]qosmutex.Locker{"client": e.Client, "member": crane} {
			held := s.lock(crane, "a")
			other, err := crane.Ask("a", qosmutex.WithPriority(50))
			if err != nil {
				t.Fatal(err)
			}
			r, err := of.Ask("a", qosmutex.WithPriority(90))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.SetPriority(30); err != nil { // before it is in line
				t.Error(err)
			}
			time.Sleep(time.Second)
			if err := r.SetPriority(20); err != nil { // and afterwards
				t.Error(err)
			}
			if err := r.SetPriority(40); !errors.Is(err, qosmutex.ErrInvalidConfig) {
				t.Errorf("%s: less important: %v", name, err)
			}
			time.Sleep(time.Second)
			s.unlock(held)
			h, err := r.Wait(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if other.Decided() || h.Priority() != 20 {
				t.Errorf("%s: with priority %d, while the other one is in: %t", name, h.Priority(), other.Decided())
			}
			if err := r.SetPriority(10); err != nil || h.Priority() != 20 {
				t.Errorf("%s: raised when it is in: %v, priority %d", name, err, h.Priority())
			}
			s.unlock(h)
			next, err := other.Wait(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			s.unlock(next)
		}
	})
}

// A request that is raised is before the equals that came after it, and in line once.
func TestRaisedRequestKeepsItsArrival(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		s.warm(e)
		for name, of := range map[string]qosmutex.Locker{"client": e.Client, "member": crane} {
			held := s.lock(crane, "a")
			var asked []*qosmutex.Request
			for _, priority := range []int64{90, 20} {
				r, err := of.Ask("a", qosmutex.WithPriority(priority))
				if err != nil {
					t.Fatal(err)
				}
				asked = append(asked, r)
				time.Sleep(time.Second)
			}
			if err := asked[0].SetPriority(20); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
			if waiting := crane.Status().Resources[0].Waiting; waiting != 2 {
				t.Errorf("%s: %d requests wait, not 2", name, waiting)
			}
			s.unlock(held)
			time.Sleep(time.Second)
			if !asked[0].Decided() || asked[1].Decided() {
				t.Errorf("%s: an equal that came later was first", name)
				asked[0], asked[1] = asked[1], asked[0]
			}
			for _, r := range asked {
				h, err := r.Wait(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				s.unlock(h)
			}
		}
	})
}

// One request and one answer, and nothing else.
func TestLockCostsOneMessageAndItsAnswer(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		w := s.tap("crane")
		defer w.close()
		e := s.client("shell", "crane")
		defer e.close()
		s.warm(e)
		time.Sleep(2 * time.Second)
		for len(w.requests) > 0 {
			<-w.requests
		}
		for len(w.answers) > 0 {
			<-w.answers
		}
		h := s.lock(e.Client, "default")
		synctest.Wait()
		if len(w.requests) != 1 || len(w.answers) != 1 || op(t, <-w.requests) != jsonlock.Acquire {
			t.Fatalf("%d requests and %d answers more for a lock", len(w.requests), len(w.answers))
		}
		<-w.answers
		s.unlock(h)
		time.Sleep(10 * time.Second)
		if len(w.requests) != 1 || len(w.answers) != 1 || op(t, <-w.requests) != jsonlock.Release {
			t.Errorf("%d requests and %d answers more for the release", len(w.requests), len(w.answers))
		}
	})
}

func TestClientHoldLastsAsLongAsItIsRenewed(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h := s.lock(e.Client, "default")
		for range 30 {
			time.Sleep(time.Second)
			if err := h.Check(); err != nil {
				t.Fatal(err)
			}
			if left := h.Remaining(); left <= 0 || left > qosmutex.LAN().TTL {
				t.Fatalf("%v remain", left)
			}
		}
		// The machine sleeps: its clock goes on, its timers do not.
		lost := h.Context()
		e.asleep.Add(int64(10 * time.Second))
		if err := h.Check(); !errors.Is(err, qosmutex.ErrLost) {
			t.Errorf("after a sleep: %v", err)
		}
		<-lost.Done()
		if !errors.Is(context.Cause(lost), qosmutex.ErrLost) {
			t.Errorf("cause %v", context.Cause(lost))
		}
		if err := h.Unlock(); !errors.Is(err, qosmutex.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		again := s.lock(e.Client, "default")
		if again.Fence() <= h.Fence() {
			t.Errorf("fence %d after %d", again.Fence(), h.Fence())
		}
		s.unlock(again)
	})
}

// TestUnlockAfterTheParticipantHasEnded: the release cannot be sent, so Unlock is no success,
// whether the hold has seen that or not; and each error says what to do.
func TestUnlockAfterTheParticipantHasEnded(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("yard")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		for i := range 20 {
			e := s.client(fmt.Sprint("client-", i), "crane")
			h := s.lock(e.Client, fmt.Sprint("hook-", i))
			_ = e.p.Close(context.Background())
			if err := h.Unlock(); !errors.Is(err, qosmutex.ErrLost) {
				t.Errorf("Unlock of a client: %v, want ErrLost", err)
			}
			for range 2 {
				if _, err := e.Lock(context.Background(), "hook"); !errors.Is(err, qosmutex.ErrClosed) || !strings.Contains(err.Error(), "join again") {
					t.Errorf("Lock: %v", err)
				}
			}
			e.close()
			p := s.join(fmt.Sprint("member-", i))
			of, err := qosmutex.Open(context.Background(), p, "yard", qosmutex.WithClock(s.clock))
			if err != nil {
				t.Fatal(err)
			}
			h = s.lock(of, fmt.Sprint("hook-", i))
			_ = p.Close(context.Background())
			if err := h.Unlock(); !errors.Is(err, qosmutex.ErrLost) {
				t.Errorf("Unlock of a member: %v, want ErrLost", err)
			}
			_ = of.Close(context.Background())
		}
	})
}
