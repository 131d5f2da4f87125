package qosmutex

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"padme/internal/wait"
	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/tests/cable"
)

// plainServer joins a server without WithRegister that says that it serves, as "pubsub-node serve".
func (w *world) plainServer(id string, long time.Duration) (s *Server, c *cable.Cable, end func()) {
	w.t.Helper()
	c = cable.New(w.b.Dial)
	p, err := pubsub.Join(w.t.Context(), "", id, pubsub.WithDialer(c.Dial), pubsub.WithUserData(map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}))
	if err != nil {
		w.t.Fatal(err)
	}
	s, stop := listening(w.t, p, long, w.clock)
	return s, c, func() { stop(); _ = p.Close(context.Background()) }
}

// Servers that have long heard that a lock has no root create it without a wait for what somebody may
// hold, also if several serve.
func TestNewLockOfSeveralServersDoesNotWaitForATTL(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		first, _, end := w.plainServer("gw1", 0)
		_, _, endOther := w.plainServer("gw2", 30*time.Second)
		for _, name := range []string{"crane", "ramp"} {
			begun := time.Now()
			h, err := topicOf(t, first, name).Lock(context.Background(), "hook")
			if err != nil {
				t.Fatal(err)
			}
			if took, most := time.Since(begun), first.patience()+3*LAN().JoinWait; took > most {
				t.Errorf("%s was had after %v, not %v", name, took, most)
			}
			_ = h.Unlock()
		}
		w.killed.Go(func() { end(); endOther() })
	})
}

// contest is several servers that are asked for the same new lock.
type contest struct {
	*world
	mu    sync.Mutex
	holds []*Hold
	tasks sync.WaitGroup
}

// visits takes the lock at a server until it has ended, and fails if another hold is valid then.
func (c *contest) visits(ctx context.Context, s *Server, stays time.Duration) {
	for ctx.Err() == nil {
		topic, err := s.Topic(ctx, "crane")
		if err != nil {
			return
		}
		h, err := topic.Lock(ctx, "hook")
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c.mu.Lock()
		for _, o := range c.holds {
			if h.Check() == nil && o.Check() == nil {
				c.t.Errorf("fence %d of %s is valid beside fence %d of %s", h.Fence(), h.of.(*Topic).self.ID, o.Fence(), o.of.(*Topic).self.ID)
			}
		}
		c.holds = append(c.holds, h)
		c.mu.Unlock()
		wait.Sleep(ctx, stays)
		_ = h.Unlock()
	}
}

// Servers without a register in common that create a lock at the same time, while the connection of one
// of them fails, let one in at a time. If one is cut off when another one comes back, two may be the root.
func TestServersThatCreateAtTheSameTimeExclude(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		inVirtualTime(t, func(t *testing.T, w *world) {
			rng := rand.New(rand.NewPCG(seed, 14))
			upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
			c := &contest{world: w}
			ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
			defer cancel()
			var ends []func()
			var servers []*Server
			var cables []*cable.Cable
			for _, id := range []string{"gw1", "gw2", "gw3"}[:2+rng.IntN(2)] {
				s, cut, end := w.plainServer(id, 0)
				servers, cables, ends = append(servers, s), append(cables, cut), append(ends, end)
			}
			time.Sleep(20 * time.Second)
			fails := rng.IntN(len(servers) + 1) // the last: none
			for i, s := range servers {
				begins, stays := upTo(400*time.Millisecond), upTo(2*time.Second)
				c.tasks.Go(func() { wait.Sleep(ctx, begins); c.visits(ctx, s, stays) })
				if i == fails {
					begins, away := upTo(4*time.Second), upTo(4*time.Second)
					c.tasks.Go(func() {
						wait.Sleep(ctx, begins)
						cables[i].Cut()
						wait.Sleep(ctx, away)
						cables[i].Restore()
					})
				}
			}
			c.tasks.Wait()
			if len(c.holds) < 5 {
				t.Errorf("seed %d: only %d holds", seed, len(c.holds))
			}
			for _, end := range ends {
				w.killed.Go(end)
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
