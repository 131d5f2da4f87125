package qosmutex_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
	"padme/tests/extent"
)

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
		e.line.Cut()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := e.Lock(ctx, "default")
		var unready *qosmutex.NotReadyError
		if !errors.As(err, &unready) || !strings.HasPrefix(unready.Why, "the broker at ") || !strings.HasSuffix(unready.Why, " does not answer") {
			t.Errorf("%v", err)
		}
		e.line.Restore()
	})
}

// Who waited behind others before that is told both.
func TestLateSaysThatTheBrokerWentAway(t *testing.T) {
	onSite(t, func(s *site) {
		_, end := s.root("crane")
		defer end()
		g := s.serve("gw")
		defer g.stop()
		holder, e := s.client("robot", "crane"), s.client("shell", "crane")
		defer holder.close()
		defer e.close()
		s.warm(holder)
		defer s.unlock(s.lock(holder.Client, "default"))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		time.AfterFunc(4*time.Second, e.line.Cut)
		_, err := e.Lock(ctx, "default")
		var unready *qosmutex.NotReadyError
		if !errors.As(err, &unready) || !strings.Contains(unready.Why, " does not answer; before that it was at place 1 in line") {
			t.Errorf("%v", err)
		}
		e.line.Restore()
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
		g.line.HoldSent()
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
		g.line.Release()
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
		e.line.HoldSent()
		time.AfterFunc(4*time.Second, e.line.Release)
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

// A gateway does not answer what it does not offer, as another one may.
func TestLateNamesALockThatIsNotOffered(t *testing.T) {
	onSite(t, func(s *site) {
		p := s.join("gate", serving)
		defer p.Close(context.Background())
		e := s.client("shell", "crane")
		defer e.close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := e.Lock(ctx, "default")
		var unready *qosmutex.NotReadyError
		if !errors.As(err, &unready) || !strings.HasPrefix(unready.Why, `gate has not answered for 10s: it may serve other lock topics only, not "crane": start "pubsub-node serve crane"`) {
			t.Errorf("%v", err)
		}
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
		for _, name := range []string{"", "+", "#", "gateway", "*", "join", "yard/b", strings.Repeat("x", 121)} {
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
