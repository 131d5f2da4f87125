package qosmutex_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
)

// Without a look at it, too.
func TestClientSeesALossByItself(t *testing.T) {
	onSite(t, func(s *site) {
		g := s.serve("gw")
		defer g.stop()
		e := s.client("shell", "crane")
		defer e.close()
		h := s.lock(e.Client, "default")
		ended, begun := h.Context(), time.Now()
		e.line.Cut()
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
			e.line.Cut() // the broker publishes the will
			time.Sleep(100 * time.Millisecond)
			e.line.Restore()
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
		e.line.Cut()
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		s.unlock(h)
		if d := time.Since(begun); d > 0 {
			t.Errorf("Unlock took %v", d)
		}
		e.line.Restore()
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
		e.line.Cut()
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
		e.line.Restore()
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
		e.line.Cut()
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		closed := make(chan time.Duration, 1)
		go func() {
			e.close()
			closed <- time.Since(begun)
		}()
		time.Sleep(time.Second)
		e.line.Restore()
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

// Nor does it stay for much longer than the server keeps the hold. Who did not let it say so is told.
func TestCloseOfAClientWithoutABrokerEnds(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		e, f := s.client("shell", "crane"), s.client("impatient", "crane")
		s.lock(e.Client, "a")
		s.lock(f.Client, "b")
		e.line.Cut()
		f.line.Cut()
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := f.Close(ctx); !errors.Is(err, qosmutex.ErrTimeout) || time.Since(begun) != time.Second {
			t.Errorf("Close with a second to do it: %v after %v", err, time.Since(begun))
		}
		e.close()
		if d := time.Since(begun); d != 4*time.Second { // after the second of the impatient one
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
		canceled, enough := context.WithCancelCause(context.Background())
		why := errors.New("had enough")
		time.AfterFunc(time.Second, func() { enough(why) })
		if _, err := e.Lock(canceled, "default"); !errors.Is(err, qosmutex.ErrCanceled) || !errors.Is(err, why) {
			t.Errorf("canceled: %v", err)
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
