package papers

import (
	"math"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/sla"
	"padme/tests/papers/bench"
)

// slaRow is what one algorithm shows in the priority benchmark.
type slaRow struct {
	name     string
	victims  float64             // per cent of the entries that came after a less important one
	perEntry float64             // messages
	rate     float64             // per cent of the time that somebody is inside
	waiting  float64             // on average
	wait     [sla.Levels]float64 // mean wait by priority, in seconds
	violated [sla.Levels]float64 // victims by priority, per cent of its entries
}

const slaSeeds = 10

// TestSLAPriorities holds the algorithms to Figures 2(a), 2(b) and 2(e) of the SLA
// paper: their order, and bands around the figures of an independent simulation of
// the rules with a critical section of 20 messages, which are 70, 67, 79, 9.8 and
// 9.0 % of victims. (The paper, which does not say how long a message takes, reads
// about 60 % for Kanrar-Chaki, 75 % for Chang and 10 % with either heuristic.) With
// critical sections of 20 messages and the token three or four links away, somebody
// is inside 85 % of the time where the paper has 90 %: the same for all, as there.
func TestSLAPriorities(t *testing.T) {
	const messages = 0.1 // of the messages per entry
	want := []slaRow{
		{name: sla.KanrarChaki.Name, victims: 70, perEntry: 9.1},
		{name: sla.KanrarChakiPiggyback.Name, victims: 67, perEntry: 5.3},
		{name: sla.Chang.Name, victims: 79, perEntry: 4.6},
		{name: sla.Level(4).Name, victims: 9.8, perEntry: 6.4},
		{name: sla.LevelDistance(4).Name, victims: 9.0, perEntry: 6.1},
	}
	got := map[string]slaRow{}
	for _, a := range sla.Priority() {
		got[a.Name] = slaBenchmark(t, a, slaSeeds)
		g := got[a.Name]
		t.Logf("%-22s %.1f %% victims, %.2f messages, rate %.1f %%, %.2f wait", a.Name, g.victims, g.perEntry, g.rate, g.waiting)
	}
	for _, w := range want {
		g := got[w.name]
		// A twentieth of the share, and two points for chance.
		if math.Abs(g.victims-w.victims) > w.victims/20+2 {
			t.Errorf("%s: %.1f %% are victims, want about %.1f", w.name, g.victims, w.victims)
		}
		if math.Abs(g.perEntry/w.perEntry-1) > messages {
			t.Errorf("%s: %.2f messages per entry, want %.1f ± %v %%", w.name, g.perEntry, w.perEntry, 100*messages)
		}
		if math.Abs(g.rate-85) > 3 {
			t.Errorf("%s: somebody is inside %.1f %% of the time, want 85 ± 3", w.name, g.rate)
		}
		if math.Abs(g.waiting-10) > 0.5 {
			t.Errorf("%s: %.2f wait on average, want half of the 20", w.name, g.waiting)
		}
	}
	order := []slaRow{
		got[sla.LevelDistance(4).Name], got[sla.Level(4).Name], got[sla.KanrarChakiPiggyback.Name],
		got[sla.KanrarChaki.Name], got[sla.Chang.Name],
	}
	for i := 1; i < len(order); i++ {
		if order[i-1].victims > order[i].victims {
			t.Errorf("%s has more victims than %s: %.2f %%, %.2f %%", order[i-1].name, order[i].name, order[i-1].victims, order[i].victims)
		}
	}
}

// TestSLAWaits holds the algorithms to what the paper reads from Figures 2(c) and
// 2(d): with Kanrar-Chaki the wait falls with rising priority in even steps; Level
// makes it longer for the lowest and shorter for the high ones, and distance changes
// nothing about it; both overtake low and intermediate priorities much less.
func TestSLAWaits(t *testing.T) {
	chaki := slaBenchmark(t, sla.KanrarChaki, slaSeeds)
	level := slaBenchmark(t, sla.Level(sla.DefaultPostponement), slaSeeds)
	distance := slaBenchmark(t, sla.LevelDistance(sla.DefaultPostponement), slaSeeds)
	const least = sla.Levels - 1
	for p := range least {
		if chaki.wait[p] >= chaki.wait[p+1] {
			t.Errorf("kanrar-chaki: priority %d waits %.3f s, priority %d %.3f s", p, chaki.wait[p], p+1, chaki.wait[p+1])
		}
	}
	if level.wait[least] < 2*chaki.wait[least] {
		t.Errorf("the least important wait %.3f s with level and %.3f s with kanrar-chaki", level.wait[least], chaki.wait[least])
	}
	for p := range sla.Levels / 2 {
		if level.wait[p] >= chaki.wait[p] {
			t.Errorf("priority %d waits %.3f s with level and %.3f s with kanrar-chaki", p, level.wait[p], chaki.wait[p])
		}
	}
	for p := 1; p < least; p++ {
		if level.violated[p] > chaki.violated[p]/2 || distance.violated[p] > chaki.violated[p]/2 {
			t.Errorf("of priority %d level overtakes %.1f %%, level-distance %.1f %%, kanrar-chaki %.1f %%",
				p, level.violated[p], distance.violated[p], chaki.violated[p])
		}
	}
	for p := range sla.Levels {
		if math.Abs(distance.wait[p]/level.wait[p]-1) > 0.2 {
			t.Errorf("priority %d waits %.3f s with level and %.3f s with level-distance", p, level.wait[p], distance.wait[p])
		}
	}
	t.Logf("kanrar-chaki   %.2f s, victims %.1f %%", chaki.wait, chaki.violated)
	t.Logf("level          %.2f s, victims %.1f %%", level.wait, level.violated)
	t.Logf("level-distance %.2f s, victims %.1f %%", distance.wait, distance.violated)
}

// TestSLAPriorityChecked runs a stretch of the benchmark through the codec and with
// the invariants checked after every step, which must change nothing.
func TestSLAPriorityChecked(t *testing.T) {
	for _, a := range sla.Priority() {
		t.Run(a.Name, func(t *testing.T) {
			var text [2]string
			for i := range text {
				sc := bench.SLAPriority(1)
				sc.Duration /= 10
				sc.Fast = i == 0
				s, err := sim.New(a, sc)
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Run()
				if err != nil {
					t.Fatal(err)
				}
				text[i] = r.String()
				if r.Rejected > 0 || r.Entries == 0 {
					t.Errorf("%d messages were refused, %d entries", r.Rejected, r.Entries)
				}
			}
			if text[0] != text[1] {
				t.Errorf("copied:\n%s\nthrough the codec:\n%s", text[0], text[1])
			}
		})
	}
}

// slaBenchmark runs the benchmark with several seeds and returns what they show
// together.
func slaBenchmark(t *testing.T, a protocol.Algorithm, seeds uint64) slaRow {
	t.Helper()
	row := slaRow{name: a.Name}
	entries, each := 0., [sla.Levels]float64{}
	for seed := range seeds {
		s, err := sim.New(a, bench.SLAPriority(seed))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run()
		if err != nil {
			t.Fatalf("%s, seed %d: %v", a.Name, seed, err)
		}
		entries += float64(r.Entries)
		row.victims += 100 * float64(r.Inversions.Victims)
		row.perEntry += float64(r.Counted)
		row.rate += 100 * r.Rate() / float64(seeds)
		row.waiting += r.AverageWaiting / float64(seeds)
		for _, e := range r.ByPriority {
			each[e.Priority] += float64(e.Entries)
			row.violated[e.Priority] += 100 * float64(e.Victims)
			row.wait[e.Priority] += float64(e.Waiting.Mean()) / float64(protocol.Second) * float64(e.Entries)
		}
	}
	for p := range each {
		row.wait[p] /= each[p]
		row.violated[p] /= each[p]
	}
	row.victims /= entries
	row.perEntry /= entries
	return row
}
