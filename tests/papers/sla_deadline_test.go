package papers

import (
	"math"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/sla"
	"padme/tests/papers/bench"
)

// deadlineRow is what one algorithm shows in the experiment with response times, over
// all seeds.
type deadlineRow struct {
	rate, waiting float64
	met, refused  int
	missed        int
	messages      uint64
}

func (r *deadlineRow) perEntry() float64 { return float64(r.messages) / float64(r.met) }

// missedShare is in per cent of the requests that were admitted.
func (r *deadlineRow) missedShare() float64 { return 100 * float64(r.missed) / float64(r.met+r.missed) }

// deadlineExperiment runs the scenario of each of ten seeds.
func deadlineExperiment(t *testing.T, name string, draw func(seed uint64) (protocol.Algorithm, sim.Scenario)) *deadlineRow {
	t.Helper()
	const seeds = 10
	row := &deadlineRow{}
	for seed := range uint64(seeds) {
		a, scenario := draw(seed)
		s, err := sim.New(a, scenario)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run()
		if err != nil {
			t.Fatalf("%s, seed %d: %v", a.Name, seed, err)
		}
		row.rate += 100 * r.Rate() / seeds
		row.waiting += r.AverageWaiting / seeds
		row.met += r.Deadlines.Met
		row.refused += r.Deadlines.Refused
		row.missed += r.Deadlines.Missed()
		row.messages += r.Counted
	}
	t.Logf("%-18s rate %.1f %%, %.1f wait, %.1f messages per entry, %d met, %d refused, %d missed (%.1f %%)",
		name, row.rate, row.waiting, row.perEntry(), row.met, row.refused, row.missed, row.missedShare())
	return row
}

func deadlines(t *testing.T, o sla.DeadlineOptions, tight bool) *deadlineRow {
	t.Helper()
	a := sla.Deadline(o)
	return deadlineExperiment(t, a.Name, func(seed uint64) (protocol.Algorithm, sim.Scenario) {
		return a, bench.SLADeadline(seed, tight)
	})
}

// TestSLADeadlines holds the response-time algorithm to Figure 3 of the SLA paper. It
// misses nothing that it admits. The critical section rate grows with preemption up
// to a distance of 1 and no further; the numbers are those of an independent
// simulation of the rules, since the paper has only a plot. Acknowledgements cost
// messages.
func TestSLADeadlines(t *testing.T) {
	const (
		points = 4   // of per cent, about the rate of the independent simulation
		chance = 0.5 // of per cent: B = 1 and B = 4 are that close
	)
	rates := []struct {
		bound int
		rate  float64
	}{{-1, 28.6}, {0, 33.9}, {1, 36.2}, {4, 35}}
	perEntry := map[bool]float64{}
	for _, ack := range []bool{false, true} {
		var got []float64
		for _, want := range rates {
			r := deadlines(t, sla.DeadlineOptions{Acknowledge: ack, Preempt: want.bound}, false)
			if r.missed > 0 {
				t.Errorf("acknowledge %v, B = %d: %d of %d missed", ack, want.bound, r.missed, r.met+r.missed)
			}
			if math.Abs(r.rate-want.rate) > points {
				t.Errorf("acknowledge %v, B = %d: rate %.1f %%, want %.1f ± %d", ack, want.bound, r.rate, want.rate, points)
			}
			got = append(got, r.rate)
			perEntry[ack] += r.perEntry()
		}
		if !(got[0] < got[1] && got[1] < got[2] && got[3] < got[2]+chance) {
			t.Errorf("acknowledge %v: rates %.1f, want them to grow up to B = 1", ack, got)
		}
	}
	if perEntry[true] <= perEntry[false] {
		t.Errorf("acknowledgements cost nothing: %.1f messages with, %.1f without", perEntry[true], perEntry[false])
	}
}

// TestSLADeadlinesTight does the same where the token's way is longer than many a
// response time, and shows what the two checks are for that the paper leaves out.
func TestSLADeadlinesTight(t *testing.T) {
	for _, ack := range []bool{false, true} {
		for _, bound := range []int{-1, 0, 1, 4} {
			r := deadlines(t, sla.DeadlineOptions{Acknowledge: ack, Preempt: bound}, true)
			if r.missed > 0 || r.met == 0 {
				t.Errorf("acknowledge %v, B = %d: %d missed, %d met", ack, bound, r.missed, r.met)
			}
		}
		r := deadlines(t, sla.DeadlineOptions{Acknowledge: ack, Preempt: -1, Literal: true}, true)
		if r.missedShare() < 5 {
			t.Errorf("acknowledge %v, literal: %.1f %% missed; the checks would not be needed", ack, r.missedShare())
		}
	}
}

// TestSLADeadlinesAsPriorities is the paper's comparison: with response times mapped
// to priorities, about 65 % of the requests miss them.
func TestSLADeadlinesAsPriorities(t *testing.T) {
	const want, points = 65, 12
	for _, a := range []protocol.Algorithm{sla.Raymond, sla.KanrarChaki, sla.LevelDistance(sla.DefaultPostponement)} {
		r := deadlineExperiment(t, a.Name, func(seed uint64) (protocol.Algorithm, sim.Scenario) {
			return bench.SLADeadlineMapped(a, seed)
		})
		if math.Abs(r.missedShare()-want) > points {
			t.Errorf("%s: %.1f %% missed, want %d ± %d", a.Name, r.missedShare(), want, points)
		}
	}
}
