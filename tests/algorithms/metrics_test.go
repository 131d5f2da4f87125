package algorithms_test

import (
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"

	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

var (
	seeds = flag.Uint64("seeds", 40, "how many scenarios of each algorithm are measured twice")
	first = flag.Uint64("first", 1, "the first seed")
)

// What the simulator measures is what the trace says, measured again by code that
// shares nothing with it. A failure names algorithm and seed: run it alone with
//
//	go test ./tests/algorithms -run Metrics/NAME -first SEED -seeds 1
func TestMetricsAreWhatTheTraceSays(t *testing.T) {
	var seen sum
	for _, algorithm := range papers.Algorithms() {
		t.Run(algorithm.Name, func(t *testing.T) {
			for seed := *first; seed < *first+*seeds; seed++ {
				measureTwice(t, algorithm, seed, &seen)
			}
		})
	}
	t.Logf("%+v", seen)
	if *seeds > 1 {
		seen.nothingIsMissing(t)
	}
}

func measureTwice(t *testing.T, algorithm protocol.Algorithm, seed uint64, seen *sum) {
	t.Helper()
	a, d := drawAnything(algorithm, seed), newDiary()
	a.scenario.Trace = d.see
	d.tap(a)
	if err := a.prepare(a.algorithm); err != nil {
		t.Fatal(err)
	}
	// To the end of the measured time, or to some instant before or after it.
	until := a.scenario.Start + a.scenario.Duration
	if a.rng.IntN(4) == 0 {
		until += protocol.Time(a.rng.IntN(16_000)-12_000) * ms
	}
	err := a.sim.RunUntil(until)
	result := a.sim.Result()
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	naive := reckoning{d, &a.scenario, a.sim.Now(), a.known, algorithm.Static}
	want, wantOthers := naive.measure()
	want.Events = a.sim.Events()
	if diff := cmp.Diff(want, result.Report()); diff != "" {
		t.Errorf("seed %d: want (-), got (+):\n%s", seed, diff)
	}
	if diff := cmp.Diff(wantOthers, othersOf(result)); diff != "" {
		t.Errorf("seed %d: want (-), got (+):\n%s", seed, diff)
	}
	seen.add(&want, &wantOthers)
}

func othersOf(r *sim.Result) others {
	o := others{
		ByNode: r.ByNode, Victims: map[int64]int{}, Never: r.Starvation.Nodes, Inside: r.Inside, Met: r.Deadlines.Met,
		Stale: r.StaleFences, Overstayed: r.Overstayed, Lost: r.LostMessages, Rejected: r.Rejected, LostHolds: r.LostHolds,
		Denied: r.Denied, Sent: map[protocol.Kind]uint64{},
	}
	for _, p := range r.ByPriority {
		if p.Victims > 0 {
			o.Victims[p.Priority] = p.Victims
		}
	}
	for k, n := range r.Sent {
		if n > 0 {
			o.Sent[protocol.Kind(k)] = n
		}
	}
	return o
}

// sum is what all runs together have shown.
type sum struct {
	Runs, Entries, Delayed, Met, Refused, Missed, Waiting, Never, Overstayed int
	Counted, Upkeep, Known, Pending, Overlaps, Stale                         uint64
	Lost, Rejected, LostHolds, Denied                                        uint64
	Overtakers, Victims                                                      int
}

func (s *sum) add(r *sim.Report, o *others) {
	s.Runs++
	s.Entries += r.Entries.Total
	if r.SyncDelay.Mean > 0 {
		s.Delayed++
	}
	s.Met += o.Met
	s.Refused += r.Deadlines.Refused
	s.Missed += r.Deadlines.Missed
	s.Waiting += r.Starvation.Waiting
	s.Never += r.Starvation.Nodes
	s.Overstayed += o.Overstayed
	s.Counted += r.Messages.Total
	s.Upkeep += r.Messages.Upkeep
	s.Known += r.Inversions.Known
	s.Pending += r.Inversions.Pending
	s.Overtakers += r.Inversions.Overtakers
	s.Victims += r.Inversions.Victims
	s.Overlaps += r.Overlaps
	s.Stale += o.Stale
	s.Lost += o.Lost
	s.Rejected += o.Rejected
	s.LostHolds += o.LostHolds
	s.Denied += o.Denied
}

// nothingIsMissing: a metric that is 0 in every run has not been compared.
func (s *sum) nothingIsMissing(t *testing.T) {
	for name, n := range map[string]int{
		"entries": s.Entries, "synchronization delays": s.Delayed, "deadlines met": s.Met, "refused": s.Refused, "missed": s.Missed,
		"waiting": s.Waiting, "never served": s.Never, "overstayed": s.Overstayed, "messages": int(s.Counted), "upkeep": int(s.Upkeep),
		"known inversions": int(s.Known), "unknown inversions": int(s.Pending - s.Known), "overtakers": s.Overtakers, "victims": s.Victims,
		"overlaps": int(s.Overlaps), "stale fences": int(s.Stale), "lost messages": int(s.Lost), "rejected": int(s.Rejected),
		"lost holds": int(s.LostHolds), "denied": int(s.Denied),
	} {
		if n == 0 {
			t.Errorf("%s: none in %d runs", name, s.Runs)
		}
	}
}
