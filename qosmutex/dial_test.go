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

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/tests/extent"
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

// Without a look at it, too.
func TestClientSeesALossByItself(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h := s.lock(e.Client, "default")
		ended, begun := h.Context(), time.Now()
		e.line.cut()
		<-ended.Done()
		if d := time.Since(begun); d > qosmutex.LAN().TTL || !errors.Is(context.Cause(ended), qosmutex.ErrLost) {
			t.Errorf("lost after %v: %v", d, context.Cause(ended))
		}
	})
}

func TestClientSurvivesAReconnection(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h := s.lock(e.Client, "a")
		other := s.lock(crane, "b")
		got := make(chan *qosmutex.Hold)
		go func() { got <- s.lock(e.Client, "b") }()
		for range 3 {
			time.Sleep(3 * time.Second)
			e.line.cut() // the broker publishes the will
			time.Sleep(100 * time.Millisecond)
			e.line.restore()
		}
		time.Sleep(20 * time.Second)
		if err := h.Check(); err != nil {
			t.Errorf("the hold: %v", err)
		}
		s.unlock(other)
		s.unlock(<-got)
		s.unlock(h)
	})
}

// Unlock does not wait, and what it has to tell is told when there is a connection.
func TestUnlockWithoutAConnectionIsToldLater(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h := s.lock(e.Client, "default")
		e.line.cut()
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		s.unlock(h)
		if d := time.Since(begun); d > 0 {
			t.Errorf("Unlock took %v", d)
		}
		e.line.restore()
		s.unlock(s.lock(crane, "default"))
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("the next was let in after %v", d)
		}
	})
}

// Nor is it forgotten if the connection is away for longer than a lease: a server that was
// away as long, with its broker, goes on with the holds that it had.
func TestUnlockIsToldAfterALongOutage(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h, lost := s.lock(e.Client, "default"), s.lock(e.Client, "other")
		e.line.cut()
		time.Sleep(100 * time.Millisecond)
		s.unlock(h)
		time.Sleep(time.Minute)
		if err := lost.Check(); !errors.Is(err, qosmutex.ErrLost) {
			t.Errorf("a hold without a connection for a minute: %v", err)
		}
		_ = lost.Unlock()
		var mu sync.Mutex
		released := 0
		p := s.join("witness", pubsub.Unannounced())
		stop, err := p.SubscribeRaw(context.Background(), pubsub.Main, []string{"lock", "crane", "client", "shell", "request"}, func(m pubsub.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(string(m.Payload), `"release"`) {
				released++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		e.line.restore()
		time.Sleep(5 * time.Second)
		mu.Lock()
		if released != 2 {
			t.Errorf("%d releases were sent, want 2", released)
		}
		mu.Unlock()
		stop()
		_ = p.Close(context.Background())
	})
}

// A program that ends while there is no broker stays until it has told that its hold is over:
// everybody else would wait for its lease.
func TestCloseTellsWhenThereIsAConnection(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		s.lock(e.Client, "default")
		e.line.cut()
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		closed := make(chan time.Duration, 1)
		go func() {
			e.close()
			closed <- time.Since(begun)
		}()
		time.Sleep(time.Second)
		e.line.restore()
		if d := <-closed; d < time.Second || d > 3*time.Second { // it tries again after at most 1.6 s
			t.Errorf("Close took %v", d)
		}
		next, err := crane.TryLock(context.Background(), "default")
		if err != nil {
			t.Fatalf("what was held is not free when Close returns: %v", err)
		}
		s.unlock(next)
	})
}

// Nor does it stay for longer than the server would have kept the hold. Who did not let it say so is told.
func TestCloseOfAClientWithoutABrokerEnds(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e, f := s.client("shell", "crane"), s.client("impatient", "crane")
		s.lock(e.Client, "a")
		s.lock(f.Client, "b")
		e.line.cut()
		f.line.cut()
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := f.Close(ctx); !errors.Is(err, qosmutex.ErrTimeout) || time.Since(begun) != time.Second {
			t.Errorf("Close with a second to do it: %v after %v", err, time.Since(begun))
		}
		e.close()
		if d := time.Since(begun); d < 9*time.Second || d > 11*time.Second {
			t.Errorf("Close took %v", d)
		}
		_ = f.p.Close(context.Background())
	})
}

// What an observer asks for reaches nobody, and an answer would never come.
func TestObserverIsToldThatItMayNotLock(t *testing.T) {
	var users broker.Users
	for name, role := range map[string]broker.Role{"gw": broker.Gateway, "panel": broker.Observer, "shell": broker.Client} {
		if err := errors.Join(users.Add(name, "secret"), users.Grant(name, role)); err != nil {
			t.Fatal(err)
		}
	}
	onSiteOf(t, broker.Config{Users: &users}, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		ask := func(user string) error {
			p := s.join(user, pubsub.Unannounced())
			defer p.Close(context.Background())
			c, err := qosmutex.Dial(context.Background(), p, "crane", qosmutex.WithClock(s.clock))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err = c.Lock(ctx, "default")
			return err
		}
		if err := ask("shell"); err != nil {
			t.Errorf("a client: %v", err)
		}
		begun := time.Now()
		if err := ask("panel"); !errors.Is(err, pubsub.ErrRefused) || !strings.Contains(err.Error(), `user "panel" has role observer`) {
			t.Errorf("an observer: %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it was told after %v", took)
		}
	})
}

func TestClosingAClientGivesEverythingBack(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		h := s.lock(e.Client, "a")
		held := s.lock(crane, "b")
		waited := make(chan error, 1)
		go func() {
			_, err := e.Lock(context.Background(), "b")
			waited <- err
		}()
		time.Sleep(time.Second)
		begun := time.Now()
		_ = e.Close(context.Background())
		if d := time.Since(begun); d > 100*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
		if err := <-waited; !errors.Is(err, qosmutex.ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		if h.Check() == nil || !errors.Is(e.Err(), qosmutex.ErrClosed) {
			t.Errorf("after Close: %v, %v", h.Check(), e.Err())
		}
		<-e.Done()
		if _, err := e.Lock(context.Background(), "a"); !errors.Is(err, qosmutex.ErrClosed) {
			t.Errorf("Lock after Close: %v", err)
		}
		next, err := crane.TryLock(context.Background(), "a")
		if err != nil {
			t.Fatalf("what was held is not free when Close returns: %v", err)
		}
		s.unlock(next)
		s.unlock(held)
		_ = e.p.Close(context.Background())
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		held := s.lock(crane, "default")
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if _, err := e.Lock(ctx, "default"); !errors.Is(err, qosmutex.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its time: %v", err)
		}
		if _, err := e.Lock(ctx, "default"); !errors.Is(err, qosmutex.ErrTimeout) {
			t.Errorf("a context that has ended: %v", err)
		}
		cancelled, enough := context.WithCancelCause(context.Background())
		why := errors.New("had enough")
		time.AfterFunc(time.Second, func() { enough(why) })
		if _, err := e.Lock(cancelled, "default"); !errors.Is(err, qosmutex.ErrCancelled) || !errors.Is(err, why) {
			t.Errorf("cancelled: %v", err)
		}
		time.Sleep(time.Second)
		s.unlock(held)
		next, err := crane.TryLock(context.Background(), "default")
		if err != nil {
			t.Fatalf("a request that was taken back is in the way: %v", err)
		}
		s.unlock(next)
	})
}

func TestNobodyServes(t *testing.T) {
	onSite(t, func(s *site) {
		e := s.client("shell", "crane")
		defer e.close()
		begun := time.Now()
		_, err := e.Lock(context.Background(), "default")
		if !errors.Is(err, qosmutex.ErrNoServer) || !strings.Contains(err.Error(), "pubsub-node serve") {
			t.Errorf("nobody serves: %v", err)
		}
		if d := time.Since(begun); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("that took %v", d)
		}
	})
}

// Without a broker it is not the servers that do not answer.
func TestLateSaysThatTheBrokerIsAway(t *testing.T) {
	onSite(t, func(s *site) {
		e := s.client("shell", "crane")
		defer e.close()
		e.line.cut()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := e.Lock(ctx, "default")
		var unready *qosmutex.NotReadyError
		if !errors.As(err, &unready) || !strings.HasPrefix(unready.Why, "the broker at ") || !strings.HasSuffix(unready.Why, " does not answer") {
			t.Errorf("%v", err)
		}
		e.line.restore()
	})
}

// Who was never answered has held nothing, and ends soon.
func TestCloseWhereNobodyServes(t *testing.T) {
	onSite(t, func(s *site) {
		for name, within := range map[string]time.Duration{"context": time.Minute, "deadline": time.Second / 2} {
			e := s.client("shell", "crane")
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := e.Lock(ctx, "default", qosmutex.WithDeadline(time.Now().Add(within)))
			if !errors.As(err, new(*qosmutex.NotReadyError)) {
				t.Errorf("%s: it is not said that nobody answers: %v", name, err)
			}
			begun := time.Now()
			if e.close(); time.Since(begun) > time.Second {
				t.Errorf("%s: Close took %v", name, time.Since(begun))
			}
		}
	})
}

// A server that comes back finds both the request and its end.
func TestCloseBesideASilentServerBlocksNobody(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		first := s.client("first", "crane")
		s.warm(first)
		first.close()
		unstick := g.line.stick()
		e := s.client("shell", "crane")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h, err := e.Lock(ctx, "default"); err == nil {
			t.Fatalf("a silent server has granted %v", h)
		}
		begun := time.Now()
		if e.close(); time.Since(begun) > time.Second {
			t.Errorf("Close took %v", time.Since(begun))
		}
		unstick()
		time.Sleep(time.Second)
		next, err := crane.TryLock(context.Background(), "default")
		if err != nil {
			t.Fatalf("a request that was taken back is in the way: %v", err)
		}
		s.unlock(next)
	})
}

// As long as the broker is silent nobody knows who serves.
func TestSilentBrokerIsNotAnAbsentServer(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		time.AfterFunc(4*time.Second, e.line.stick())
		s.unlock(s.lock(e.Client, "default"))
	})
}

// On a machine that gets busier a broker answers later from one time to the next: it has
// been silent of a server until it has told of those that there are.
func TestBrokerThatGetsSlowerHidesNoServer(t *testing.T) {
	onSite(t, func(s *site) {
		p := s.join("busy", serving)
		defer p.Close(context.Background())
		e := s.client("shell", "crane")
		defer e.close()
		e.line.mu.Lock()
		e.line.slow = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 4 * time.Second, 4 * time.Second}
		e.line.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := e.Lock(ctx, "default"); !errors.Is(err, qosmutex.ErrTimeout) || !strings.Contains(err.Error(), "busy has not answered for 30s") {
			t.Errorf("a server that does not answer: %v", err)
		}
	})
}

// Where the broker is slow, those that serve may have lost their connection to it.
func TestNobodyServesOnlyWhereTheBrokerIsQuick(t *testing.T) {
	onSite(t, func(s *site) {
		e := s.client("shell", "crane")
		defer e.close()
		e.line.mu.Lock()
		e.line.slow = append([]time.Duration{0, 0}, slices.Repeat([]time.Duration{400 * time.Millisecond}, 10)...) // presences, role, questions
		e.line.mu.Unlock()
		_, err := e.Lock(context.Background(), "default")
		e.line.mu.Lock()
		defer e.line.mu.Unlock()
		if !errors.Is(err, qosmutex.ErrNoServer) || len(e.line.slow) > 0 {
			t.Errorf("with %d slow answers to come: %v", len(e.line.slow), err)
		}
	})
}

// A client that looked for servers once gives those that come after them the same time.
func TestServerThatComesSoonIsNotAbsent(t *testing.T) {
	onSite(t, func(s *site) {
		p := s.join("busy", serving)
		e := s.client("shell", "crane")
		defer e.close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := e.Lock(ctx, "default"); !errors.Is(err, qosmutex.ErrTimeout) || !strings.Contains(err.Error(), "busy has not answered for 10s") {
			t.Errorf("nobody answers: %v", err)
		}
		_ = p.Close(context.Background())
		time.Sleep(time.Millisecond)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			time.Sleep(time.Second)
			g := s.serve("gw")
			time.Sleep(10 * time.Second)
			g.stop()
		})
		s.unlock(s.lock(e.Client, "default"))
	})
}

// A server drops what a client says too fast. A client that did would wait for its own
// repetitions, and others for releases that were dropped.
func TestClientSaysNoMoreThanIsRead(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		s.warm(e)
		for range 2 * jsonlock.Rate { // two messages each
			begun := time.Now()
			s.unlock(s.lock(e.Client, "default"))
			if d := time.Since(begun); d > 100*time.Millisecond {
				t.Fatalf("a lock that is free took %v", d)
			}
		}
	})
}

// A server has room for so many requests of a client. Those beyond wait at the client in
// the same order.
func TestRequestsBeyondTheServersKeepTheirOrder(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h := s.lock(e.Client, "default")
		var all []*qosmutex.Request
		for range extent.Of(3, 8) * jsonlock.MaxLive {
			r, err := e.Ask("default")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		time.Sleep(5 * time.Second)
		if st := e.Status(); len(st.Waiting) != len(all) || st.Waiting[0].Busy != "" || st.Waiting[len(all)-1].Busy == "" {
			t.Errorf("%+v", st)
		}
		s.unlock(h)
		begun := time.Now()
		for i, r := range all {
			h, err := r.Wait(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, later := range all[i+1:] {
				if later.Decided() {
					t.Fatalf("request %d waits, and a later one is inside", i)
				}
			}
			s.unlock(h)
		}
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("%d entries took %v", len(all), d)
		}
	})
}

// A server that does not answer is busy, and not absent.
func TestSilentServerIsNotAbsent(t *testing.T) {
	onSite(t, func(s *site) {
		p := s.join("busy", serving)
		defer p.Close(context.Background())
		e := s.client("shell", "crane")
		defer e.close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		got := make(chan error, 1)
		go func() {
			h, err := e.Lock(ctx, "default")
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
		time.Sleep(20 * time.Second)
		if st := e.Status(); len(st.Waiting) != 1 || st.Waiting[0].Silent < 19*time.Second || !slices.Equal(st.Servers, []string{"busy"}) || !st.Connected {
			t.Errorf("%+v", st)
		}
		g := s.serve("gw")
		defer g.stop()
		if err := <-got; err != nil {
			t.Error(err)
		}
		if st := e.Status(); len(st.Waiting) != 0 || st.Server != "gw" {
			t.Errorf("%+v", st)
		}
	})
}

func TestKilledServerIsReplaced(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("crane")
		defer end()
		one := s.serve("gw-1")
		defer one.stop()
		holder, waiter := s.client("holder", "crane"), s.client("waiter", "crane")
		defer holder.close()
		defer waiter.close()
		h := s.lock(holder.Client, "default")
		two := s.serve("gw-2")
		defer two.stop()
		got := make(chan *qosmutex.Hold)
		go func() { got <- s.lock(waiter.Client, "default") }()
		time.Sleep(5 * time.Second)
		if st := waiter.Status(); len(st.Waiting) != 1 || st.Waiting[0].Position != 1 || st.Server != "gw-1" {
			t.Errorf("%+v", st)
		}
		one.line.cut()
		next := <-got
		if h.Check() == nil {
			t.Error("the hold of a killed server is valid while the next one is in")
		}
		if next.Fence() <= h.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), h.Fence())
		}
		if err := h.Unlock(); !errors.Is(err, qosmutex.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		s.unlock(next)
		s.unlock(s.lock(holder.Client, "default"))
	})
}

// An orderly end tells everybody, and who waited asks the next one.
func TestWaitingOutlivesAServerThatEnds(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		one := s.serve("gw-1")
		e := s.client("shell", "crane")
		defer e.close()
		held := s.lock(crane, "default")
		got := make(chan *qosmutex.Hold)
		go func() { got <- s.lock(e.Client, "default") }()
		time.Sleep(5 * time.Second)
		one.stop()
		time.Sleep(30 * time.Second) // nobody serves: it goes on waiting
		two := s.serve("gw-2")
		defer two.stop()
		s.unlock(held)
		s.unlock(<-got)
	})
}

// An operator ends a request as the gateway's clients are ended: by the gone that names it.
func TestEvictedRequestEnds(t *testing.T) {
	onSite(t, func(s *site) {
		crane, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		w := s.tap("crane")
		defer w.close()
		e := s.client("shell", "crane")
		defer e.close()
		s.warm(e)
		held := s.lock(crane, "a")
		got := make(chan error, 1)
		go func() {
			_, err := e.Lock(context.Background(), "a")
			got <- err
		}()
		time.Sleep(time.Second)
		for len(w.requests) > 0 {
			<-w.requests
		}
		r, err := jsonlock.DecodeRequest((<-w.requests).Payload) // its renewal
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r.Op = jsonlock.Gone
		payload, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.p.PublishRaw(pubsub.Main, []string{"lock", "crane", "client", "shell", "request"}, payload, false); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, qosmutex.ErrCancelled) || !strings.Contains(err.Error(), "operator") {
			t.Errorf("evicted: %v", err)
		}
		s.unlock(held)
	})
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	onSite(t, func(s *site) {
		_, session := qosmutex.LastWill("somebody-else")
		p := s.join("a")
		defer p.Close(context.Background())
		for says, opts := range map[string][]qosmutex.Option{
			"Create is for members":     {qosmutex.Create()},
			"WithModels is for members": {qosmutex.WithModels(qosmutex.Models{})},
			"WithResources or":          {qosmutex.WithResources("a")},
			"WithTiming is for members": {qosmutex.WithTiming(qosmutex.Local())},
			"WithParent is for members": {qosmutex.WithParent("b")},
			"WithFanout is for members": {qosmutex.WithFanout(2)},
			"WithTrustedWills is for":   {qosmutex.WithTrustedWills()},
			`LastWill("somebody-else")`: {session},
		} {
			if _, err := qosmutex.Dial(context.Background(), p, "crane", opts...); !errors.Is(err, qosmutex.ErrInvalidConfig) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if _, err := qosmutex.Open(context.Background(), p, "crane", session); !errors.Is(err, qosmutex.ErrInvalidConfig) || !strings.Contains(err.Error(), "Dial") {
			t.Errorf("LastWill given to Open: %v", err)
		}
		if _, err := qosmutex.NewServer(p, session); !errors.Is(err, qosmutex.ErrInvalidConfig) || !strings.Contains(err.Error(), "Dial") {
			t.Errorf("LastWill given to NewServer: %v", err)
		}
		for _, name := range []string{"", "gateway", "*", "join", "yard/b", strings.Repeat("x", 121)} {
			if _, err := qosmutex.Dial(context.Background(), p, name); !errors.Is(err, qosmutex.ErrInvalidName) {
				t.Errorf("lock topic %.20q: %v", name, err)
			}
		}
		c, err := qosmutex.Dial(context.Background(), p, "crane", qosmutex.WithClock(s.clock))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := c.Lock(context.Background(), "a", qosmutex.WithClient("panel")); !errors.Is(err, qosmutex.ErrUnsupported) || !strings.Contains(err.Error(), "Open") {
			t.Errorf("an option that only members have: %v", err)
		}
		if err := c.Do(context.Background(), "a", nil); !errors.Is(err, qosmutex.ErrInvalidConfig) {
			t.Errorf("nothing to do: %v", err)
		}
		if _, err := c.Lock(context.Background(), "client"); !errors.Is(err, qosmutex.ErrInvalidName) {
			t.Errorf("a reserved resource: %v", err)
		}
		_ = p.Close(context.Background())
		<-c.Done()
		if err := c.Err(); !errors.Is(err, qosmutex.ErrClosed) || !strings.Contains(err.Error(), "join again") {
			t.Errorf("without its participant: %v", err)
		}
		if _, err := qosmutex.Dial(context.Background(), p, "crane"); !errors.Is(err, qosmutex.ErrClosed) {
			t.Errorf("by a participant that has ended: %v", err)
		}
	})
}
