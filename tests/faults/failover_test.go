//go:build linux

package faults

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"padme/qosmutex"
	"padme/tests/extent"
)

// TestFailover kills holders and prints how long it takes until the one who waits
// is inside, beside the TTL.
func TestFailover(t *testing.T) {
	extent.NotShort(t, "real processes")
	for name, timing := range map[string]qosmutex.Timing{"LAN": qosmutex.LAN(), "Local": qosmutex.Local()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, &cluster{models: fair[0], lan: name == "LAN", idleRoot: true}, []participant{{"root", 0}, {"a", 10}, {"b", 20}})
			var took []time.Duration
			for range *failovers {
				took = append(took, failOver(c, timing.Heartbeat))
			}
			slices.Sort(took)
			t.Logf("%s: TTL %v: the next one is inside %v (median of %d), %v (worst) after the holder was killed; the least was %v",
				name, timing.TTL, milliseconds(took[len(took)/2]), len(took), milliseconds(took[len(took)-1]), milliseconds(took[0]))
			if v := c.end(); v.CheckResult != porcupine.Ok {
				t.Errorf("porcupine says %v", v.CheckResult)
			}
		})
	}
}

// failOver kills a holder whom another one waits for, at any time between two
// heartbeats.
func failOver(c *cluster, heartbeat time.Duration) time.Duration {
	c.t.Helper()
	next := c.waiter()
	holder := c.blocker
	c.blocker = nil
	time.Sleep(rand.N(heartbeat))
	killed := now()
	c.kill(holder)
	var entry event
	c.await("the next one is inside", bound, func() (inside bool) {
		c.read(next)
		entry, inside = next.first(got, holder.last(stays).resource, killed)
		return inside
	})
	c.startAgain(holder)
	return entry.at.sub(killed)
}

// startAgain returns when everybody is served again, and every voter answers: one that is
// started again is quiet for as long as a lease, and another one that is killed meanwhile
// would be the second of three.
func (c *cluster) startAgain(m *member) {
	c.t.Helper()
	c.start(m)
	if _, err := c.awaitServed(now(), c.members...); err != nil {
		c.fatal("%v", err)
	}
	t := timing(c.lan)
	time.Sleep(t.Grace() / 2)
}

func milliseconds(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// TestRootFailover kills the root, of three voters that all lock, and prints how long it
// takes until somebody enters under the next one.
func TestRootFailover(t *testing.T) {
	extent.NotShort(t, "real processes")
	for name, timing := range map[string]qosmutex.Timing{"LAN": qosmutex.LAN(), "Local": qosmutex.Local()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, &cluster{models: fair[0], lan: name == "LAN"}, []participant{{"root", 0}, {"a", 10}, {"b", 20}})
			var took []time.Duration
			for range *failovers {
				took = append(took, failOverRoot(c, timing.Heartbeat))
			}
			slices.Sort(took)
			t.Logf("%s: TTL %v: somebody is inside under the next root %v (median of %d), %v (worst) after the root was killed; the least was %v",
				name, timing.TTL, milliseconds(took[len(took)/2]), len(took), milliseconds(took[len(took)-1]), milliseconds(took[0]))
			if v := c.end(); v.CheckResult != porcupine.Ok {
				t.Errorf("porcupine says %v", v.CheckResult)
			}
		})
	}
}

// failOverRoot kills the root at any time between two heartbeats.
func failOverRoot(c *cluster, heartbeat time.Duration) time.Duration {
	c.t.Helper()
	time.Sleep(rand.N(heartbeat))
	victim := c.root()
	killed := now()
	c.kill(victim)
	var next, entry event
	c.await("somebody else is the root", bound, func() bool {
		for _, m := range c.members {
			c.read(m)
			if e := m.last(rooted); m != victim && e.at > killed {
				next = e
			}
		}
		return next.at > killed
	})
	c.await("somebody is inside under it", bound, func() (inside bool) {
		for _, m := range c.members {
			for _, r := range resources {
				c.read(m)
				if e, ok := m.first(got, r, next.at); ok && m != victim && (!inside || e.at < entry.at) {
					entry, inside = e, true
				}
			}
		}
		return inside
	})
	c.startAgain(victim)
	return entry.at.sub(killed)
}
