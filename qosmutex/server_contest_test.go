package qosmutex

import (
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"padme/internal/wait"
	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/tests/cable"
	"padme/tests/extent"
)

// plainServer joins a server without WithRegister that says that it serves, as "pubsub-node serve".
func (w *world) plainServer(id string, long time.Duration, opts ...Option) (s *Server, c *cable.Cable, end func()) {
	w.t.Helper()
	c = cable.New(w.b.Dial)
	p, err := pubsub.Join(w.t.Context(), "", id, pubsub.WithDialer(c.Dial), pubsub.WithUserData(map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}))
	if err != nil {
		w.t.Fatal(err)
	}
	s, stop := listening(w.t, p, long, append(opts, w.clock)...)
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
	holds []heldAt
	dead  map[*Server]bool
	tasks sync.WaitGroup
}

// heldAt is a hold that was had at a server, or by a member.
type heldAt struct {
	*Hold
	at *Server
}

// visits takes the lock at a server until it has ended, and fails if another hold is valid then.
func (c *contest) visits(ctx context.Context, s *Server, stays time.Duration) {
	for ctx.Err() == nil {
		topic, err := s.Topic(ctx, "crane")
		if err != nil {
			return
		}
		c.visit(ctx, topic, s, stays)
	}
}

// visit takes the lock once, at a server or as a member, for which at is nil.
func (c *contest) visit(ctx context.Context, topic *Topic, at *Server, stays time.Duration) {
	h, err := topic.Lock(ctx, "hook")
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	c.mu.Lock()
	for _, o := range c.holds {
		if !c.dead[at] && !c.dead[o.at] && h.Check() == nil && o.Check() == nil {
			c.t.Errorf("fence %d of %s is valid beside fence %d of %s", h.Fence(), topic.self.ID, o.Fence(), o.of.(*Topic).self.ID)
		}
	}
	c.holds = append(c.holds, heldAt{h, at})
	c.mu.Unlock()
	wait.Sleep(ctx, stays)
	_ = h.Unlock()
}

// fail has a connection fail for a while: it ends and comes back at once or later, or all that it carries
// is late.
func (c *contest) fail(ctx context.Context, of *cable.Cable, away time.Duration, how string) {
	switch how {
	case "ends":
		of.Cut()
		defer of.Restore()
	case "breaks":
		of.Break()
		return
	case "stalls":
		of.HoldSent()
		of.HoldReceived()
		defer of.Release()
	}
	wait.Sleep(ctx, away)
}

// play has two or three servers take the same new lock again and again, of which the first to need it
// may be one that another one cannot hear.
func (c *contest) play(rng *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	timing := LAN().WithTTL([]time.Duration{3 * time.Second, time.Second, 10 * time.Second}[max(0, rng.IntN(6)-3)])
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second+20*timing.TTL)
	defer cancel()
	var ends []func()
	var servers []*Server
	var cables []*cable.Cable
	for _, id := range []string{"gw1", "gw2", "gw3"}[:2+rng.IntN(2)] {
		s, cut, end := c.plainServer(id, 0, WithTiming(timing))
		servers, cables, ends = append(servers, s), append(cables, cut), append(ends, end)
	}
	time.Sleep(20 * time.Second)
	together := []time.Duration{400 * time.Millisecond, 6 * time.Second}[rng.IntN(2)]
	for i, s := range servers {
		begins, stays := upTo(together), upTo(8*time.Second)
		c.tasks.Go(func() { wait.Sleep(ctx, begins); c.visits(ctx, s, stays) })
		if rng.IntN(3) > 0 {
			begins, how, away := upTo(together+4*time.Second), []string{"ends", "ends", "stalls", "breaks"}[rng.IntN(4)], upTo(6*time.Second)
			c.tasks.Go(func() { wait.Sleep(ctx, begins); c.fail(ctx, cables[i], away, how) })
		}
	}
	c.tasks.Wait()
	if len(c.holds) < 5 {
		c.t.Errorf("only %d holds", len(c.holds))
	}
	for _, end := range ends {
		c.killed.Go(end)
	}
}

var contestSeed = flag.Uint64("contest.seed", 0, "the first seed of servers that create a lock")

// Servers without a register in common that need a new lock let one in at a time, whenever the connection
// of each fails.
func TestServersThatCreateALockExclude(t *testing.T) {
	first := *contestSeed
	for seed := range extent.InShort(uint64(10), extent.Of(uint64(60), 3000)) {
		seed += first
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				(&contest{world: w}).play(rand.New(rand.NewPCG(seed, 14)))
			})
		})
	}
}

// twoServers has both take a new lock, the second one a while after the first, and returns after their
// connections failed as play says.
func twoServers(t *testing.T, ttl time.Duration, play func(c *contest, ctx context.Context, first, second *Server, cables [2]*cable.Cable)) {
	inVirtualTime(t, func(_ *testing.T, w *world) {
		c := &contest{world: w}
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		timing := WithTiming(LAN().WithTTL(ttl))
		first, one, end := w.plainServer("gw1", 0, timing)
		second, other, endOther := w.plainServer("gw2", 10*time.Second, timing)
		play(c, ctx, first, second, [2]*cable.Cable{one, other})
		c.tasks.Wait()
		if len(c.holds) < 2 {
			t.Errorf("only %d holds", len(c.holds))
		}
		w.killed.Go(func() { end(); endOther() })
	})
}

// Who cannot hear the root may create the lock a TTL after it has asked for it. By then, the root holds
// nothing that rests on what it wrote to its own register since it was last heard.
func TestRootThatIsNotHeardHoldsForATTL(t *testing.T) {
	twoServers(t, 3*time.Second, func(c *contest, ctx context.Context, first, second *Server, cables [2]*cable.Cable) {
		c.tasks.Go(func() { c.visits(ctx, first, 20*time.Second) })
		time.Sleep(5 * time.Second)
		c.tasks.Go(func() { c.visits(ctx, second, time.Second) })
		c.fail(ctx, cables[0], 10*time.Second, "ends")
	})
}

// A server whose connection stalled has not heard what was said meanwhile.
func TestStalledServerHearsOfTheRoot(t *testing.T) {
	twoServers(t, 3*time.Second, func(c *contest, ctx context.Context, first, second *Server, cables [2]*cable.Cable) {
		c.tasks.Go(func() { c.visits(ctx, first, 10*time.Second) })
		c.tasks.Go(func() { time.Sleep(100 * time.Millisecond); c.visits(ctx, second, 10*time.Second) })
		c.tasks.Go(func() { time.Sleep(300 * time.Millisecond); c.fail(ctx, cables[0], 4200*time.Millisecond, "stalls") })
		time.Sleep(3 * time.Second)
		c.fail(ctx, cables[1], 3*time.Second, "ends")
	})
}

// A root that has answered a server, and is cut off then, was there when it did.
func TestAnsweredServerCountsFromTheAnswer(t *testing.T) {
	twoServers(t, 10*time.Second, func(c *contest, ctx context.Context, first, second *Server, cables [2]*cable.Cable) {
		c.tasks.Go(func() { c.visits(ctx, first, 25*time.Second) })
		time.Sleep(13 * time.Second)
		c.tasks.Go(func() { time.Sleep(100 * time.Millisecond); c.visits(ctx, second, time.Second) })
		time.AfterFunc(200*time.Millisecond, cables[1].HoldSent)
		c.fail(ctx, cables[0], 1900*time.Millisecond, "stalls")
		time.Sleep(time.Millisecond)
		time.AfterFunc(time.Millisecond, cables[1].Release) // too late to go on with the answer
		c.fail(ctx, cables[0], 15*time.Second, "ends")
	})
}
