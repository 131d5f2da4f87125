//go:build linux

package faults

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"padme/tests/extent"
)

// perCluster is how many faults one cluster goes through: few enough for
// porcupine, whose memory grows with the square of a history.
const perCluster = 10

// fair are the models under which everybody is served in turn.
var fair = []string{
	"fair-forward-forward-forward", "fair-replace-use-use", "fair-forward-use-use", "fair-replace-forward-forward",
	"fair-forward-forward-use", "fair-replace-use-forward", "fair-forward-use-forward", "fair-replace-forward-use",
	"fair-forward-forward-retain", "fair-replace-use-retain", "fair-forward-forward-direct", "fair-replace-use-direct",
}

// totals add up what injections of one kind did.
type totals struct {
	verdict
	injected      int
	others, after []time.Duration
}

// TestInjections injects faults of each kind. After each of them everybody is
// served again within the bound; the histories are those of a lock with fences;
// and no update of what a guard protects is lost.
func TestInjections(t *testing.T) {
	extent.NotShort(t, "real processes")
	for i, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if f.network {
				needNetworks(t)
			}
			if f.broker.mosquitto && !hasMosquitto(t) {
				t.Skip("mosquitto is not installed")
			}
			var sum totals
			for n := 0; sum.injected < *injections; n++ {
				models := cmp.Or(*only, fair[(i+n)%len(fair)])
				t.Run(fmt.Sprint(n), func(t *testing.T) { runCluster(t, f, models, &sum) })
				if t.Failed() {
					break
				}
			}
			t.Log(sum.line(f.name))
			if f.overwrites && sum.lostBare == 0 && !t.Failed() {
				t.Error("without a guard no update was lost: the test does not show what a guard is for")
			}
		})
	}
}

// runCluster injects as many faults as are left, at most as many as one cluster
// goes through.
func runCluster(t *testing.T, f fault, models string, sum *totals) {
	c := &cluster{kind: f.broker, models: models, lan: f.broker.root} // with Local a busy machine may cost the hold that must not be lost
	if f.network {
		c.network = newNetwork(t, 1+len(five))
	}
	newCluster(t, c, five)
	for range min(perCluster, *injections-sum.injected) {
		r := f.inject(c)
		after, err := c.awaitServed(r.over, c.members...)
		if err != nil {
			c.fatal("%s under %s: %v", f.name, models, err)
		}
		sum.injected++
		sum.after = append(sum.after, after)
		if r.others > 0 {
			sum.others = append(sum.others, r.others)
		}
	}
	v := c.end()
	if v.CheckResult != porcupine.Ok {
		t.Errorf("%s under %s: porcupine says %v", f.name, models, v.CheckResult)
	}
	if v.lostSafe > 0 || v.tooMuch > 0 {
		t.Errorf("%s under %s: the guarded counters lost %d updates, and have %d too many", f.name, models, v.lostSafe, v.tooMuch)
	}
	sum.add(v)
}

func (s *totals) add(v verdict) {
	s.entries += v.entries
	s.losses += v.losses
	s.refusals += v.refusals
	s.lostBare += v.lostBare
	s.lostSafe += v.lostSafe
}

// line is a row of a table: docs/robustness.md names its columns.
func (s *totals) line(name string) string {
	return fmt.Sprintf("| %s | %d | %s | %s | %d | %d | %d | %d | %d |", name, s.injected, spread(s.others), spread(s.after),
		s.entries, s.losses, s.lostBare, s.lostSafe, s.refusals)
}

// spread is the median and the worst.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "–"
	}
	slices.Sort(d)
	return fmt.Sprintf("%.2f / %.2f s", d[len(d)/2].Seconds(), d[len(d)-1].Seconds())
}

// TestRecklessWorkersAreSeen: the checks are red when members take their holds
// for valid whatever Check says, and write past the guard.
func TestRecklessWorkersAreSeen(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	c := newCluster(t, &cluster{models: fair[0], reckless: true}, five)
	for range 3 { // who holds may have left by the time that it stops
		r := c.stopped(c.holder())
		if _, err := c.awaitServed(r.over, c.members...); err != nil {
			c.fatal("%v", err)
		}
	}
	v := c.end()
	if v.CheckResult != porcupine.Illegal {
		t.Errorf("porcupine says %v", v.CheckResult)
	}
	if v.lostSafe == 0 {
		t.Error("no update was lost")
	}
	t.Logf("porcupine says %v; %d updates were lost", v.CheckResult, v.lostSafe)
}
