package qosmutex

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"padme/internal/wait"
	"padme/pubsub"
	"padme/tests/extent"
)

var restartSeed = flag.Uint64("restart.seed", 0, "the first seed of servers that are killed and go on with their files")

// restarts has two or three servers, each with a file of its own, and up to two members take the same lock
// again and again, while servers are killed and started again, some at the same moment, and connections fail.
func (c *contest) restarts(rng *rand.Rand, dir string) {
	timing := LAN().WithTTL([]time.Duration{3 * time.Second, time.Second, 10 * time.Second}[max(0, rng.IntN(6)-3)])
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second+15*timing.TTL)
	defer cancel()
	of := func(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 15)) }
	together, common := rng.IntN(3) == 0, rng.Uint64()
	for i := range 2 + rng.IntN(2) {
		k := &keeper{id: "gw" + strconv.Itoa(i), t: c.t, w: c.world, path: filepath.Join(dir, strconv.Itoa(i))}
		own, power := rng.Uint64(), rng.Uint64()
		if together {
			power = common
		}
		c.tasks.Go(func() { c.site(ctx, k, of(own), of(power), timing) })
	}
	for i := range rng.IntN(3) {
		p, cable := c.join("member " + strconv.Itoa(i))
		own := of(rng.Uint64())
		c.tasks.Go(func() { c.member(ctx, p, own) })
		begins, how, away := upTo(own, 30*time.Second), howToFail(own), shortOrLong(own)
		c.tasks.Go(func() { wait.Sleep(ctx, begins); c.fail(ctx, cable, away, how) })
	}
	c.tasks.Wait()
	if len(c.holds) < 3 {
		c.t.Errorf("only %d holds", len(c.holds))
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// shortOrLong is now and then longer than it takes others to have a new root.
func shortOrLong(rng *rand.Rand) time.Duration {
	return upTo(rng, []time.Duration{2, 8, 30}[rng.IntN(3)]*time.Second)
}

func howToFail(rng *rand.Rand) string {
	return []string{"ends", "ends", "stalls", "breaks"}[rng.IntN(4)]
}

// site runs servers one after another, each of which is killed when power says so.
func (c *contest) site(ctx context.Context, k *keeper, rng, power *rand.Rand, timing Timing) {
	for ctx.Err() == nil {
		s, kill := k.serve(WithTiming(timing))
		begins, stays := upTo(rng, 5*time.Second), shortOrLong(rng)
		fails, how, away := upTo(rng, 15*time.Second), howToFail(rng), shortOrLong(rng)
		running, end := context.WithCancel(ctx)
		living, dies := context.WithTimeout(ctx, upTo(power, 6*timing.TTL+10*time.Second))
		var visitor, failure sync.WaitGroup
		visitor.Go(func() { wait.Sleep(running, begins); c.visits(running, s, stays) })
		failure.Go(func() { wait.Sleep(living, fails); c.fail(living, k.cable, away, how) })
		<-living.Done()
		dies()
		c.dies(s)
		failure.Wait()
		kill()
		end()
		visitor.Wait()
		wait.Sleep(ctx, upTo(power, 2*timing.TTL))
	}
}

// member takes the lock of whichever root there is.
func (c *contest) member(ctx context.Context, p *pubsub.Participant, rng *rand.Rand) {
	defer func() { c.killed.Go(func() { _ = p.Close(context.Background()) }) }()
	for ctx.Err() == nil {
		topic, err := Open(ctx, p, "crane", c.clock)
		if err != nil {
			continue
		}
		for range 1 + rng.IntN(5) {
			c.visit(ctx, topic, nil, shortOrLong(rng))
			wait.Sleep(ctx, upTo(rng, 2*time.Second))
		}
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = topic.Close(closing)
		cancel()
	}
}

// dies has the holds of a server count no more, which is killed.
func (c *contest) dies(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead[s] = true
}

// Servers that keep their locks in files of their own, and their members, let one in at a time, whenever
// processes are killed and connections fail.
func TestServersThatAreKilledExclude(t *testing.T) {
	first := *restartSeed
	for seed := range extent.InShort(uint64(10), extent.Of(uint64(40), 1000)) {
		seed += first
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := t.TempDir()
			inVirtualTime(t, func(t *testing.T, w *world) {
				(&contest{world: w, dead: map[*Server]bool{}}).restarts(rand.New(rand.NewPCG(seed, 15)), dir)
			})
		})
	}
}
