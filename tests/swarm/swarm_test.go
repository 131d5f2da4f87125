// Package swarm simulates PADME under faults drawn from a seed, with every
// invariant checked after each step, and then demands that service goes on.
package swarm

import (
	"flag"
	"math/rand/v2"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

var (
	seeds = flag.Uint64("seeds", 300, "how many seeds to run")
	first = flag.Uint64("first", 1, "the first seed")
)

// TestServiceGoesOnAfterFaults runs each seed for a minute of simulated time. In
// the first half, members are cut off, paused and crashed and messages are lost and
// doubled; in the second, everybody who lives must be served. The root lives: its
// death is not survived yet. A failure names its seed: run it alone with
//
//	go test ./tests/swarm -first SEED -seeds 1
func TestServiceGoesOnAfterFaults(t *testing.T) {
	var sum protocol.Counters
	faults := map[string]int{}
	for seed := *first; seed < *first+*seeds; seed++ {
		run := newRun(t, seed, faults)
		for id, entries := range run.result(t) {
			if entries == 0 {
				t.Errorf("seed %d: %s lives and waits and was not served in the second half", seed, id)
			}
		}
		for _, id := range run.alive {
			c := run.sim.Status(id).Counters
			sum.Lapses += c.Lapses
			sum.Losses += c.Losses
			sum.Resent += c.Resent
			sum.Syncs += c.Syncs
			sum.Regenerated += c.Regenerated
			sum.Returned += c.Returned
			sum.OffPath += c.OffPath
			sum.Moves += c.Moves
		}
	}
	t.Logf("faults: %v", faults)
	t.Logf("lapses %d, holds lost %d, messages repeated %d, recoveries %d, tokens made anew %d, grants returned %d, releases off path %d, moves %d",
		sum.Lapses, sum.Losses, sum.Resent, sum.Syncs, sum.Regenerated, sum.Returned, sum.OffPath, sum.Moves)
	for name, n := range map[string]uint64{
		"lapses": sum.Lapses, "losses": sum.Losses, "repetitions": sum.Resent,
		"recoveries": sum.Syncs, "regenerations": sum.Regenerated, "returned grants": sum.Returned,
	} {
		if n == 0 && *seeds >= 100 {
			t.Errorf("no %s: the faults do not reach what they should test", name)
		}
	}
}

// run is one seed.
type run struct {
	seed  uint64
	rng   *rand.Rand
	sim   *sim.Sim
	start protocol.Time
	alive []string
	half  map[string]int // entries of each participant when the second half begins
}

const span = 60 * protocol.Second

func newRun(t *testing.T, seed uint64, faults map[string]int) *run {
	r := &run{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), start: 30 * protocol.Second, half: map[string]int{}}
	n := 3 + r.rng.IntN(8)
	models := protocol.AllModels()[r.rng.IntN(16)]
	models.Priority = protocol.Fair // Level promises service to nobody
	s := sim.Scenario{
		Seed: seed, Participants: sim.Tree(n, 2, r.rng.IntN(2) == 0), Timing: protocol.LAN(),
		Settings: protocol.Settings{Models: models, Resources: []string{"a", "b"}},
		Network:  sim.Network{Latency: sim.Uniform(5*protocol.Millisecond, 25*protocol.Millisecond)},
		Order:    sim.Shuffled,
		Workload: sim.Workload{
			Resources: []string{"a", "b", protocol.Any},
			Hold:      sim.Uniform(30*protocol.Millisecond, 80*protocol.Millisecond),
			Think:     sim.Uniform(20*protocol.Millisecond, 220*protocol.Millisecond),
		},
		Start: r.start, Duration: span,
	}
	for i := range s.Participants {
		s.Participants[i].ClockOffset = protocol.Time(r.rng.IntN(1000)) * protocol.Second
		s.Participants[i].ClockDrift = int64(r.rng.IntN(10_000) - 5_000)
		r.alive = append(r.alive, s.Participants[i].ID)
	}
	var err error
	if r.sim, err = sim.New(padme.Algorithm, s); err != nil {
		t.Fatal(err)
	}
	r.addFaults(s, faults)
	// Whoever was cut off has a place again after a session and some beacons.
	r.sim.At(r.start+span/2+15*protocol.Second, func() {
		for _, id := range r.alive {
			r.half[id] = r.sim.Result().AtNode(id)
		}
	})
	return r
}

// addFaults draws up to four faults for the first half, none of them for the
// root, and each participant at most one.
func (r *run) addFaults(s sim.Scenario, faults map[string]int) {
	victims := r.rng.Perm(len(s.Participants) - 1)
	for _, v := range victims[:min(len(victims), r.rng.IntN(5))] {
		id := s.Participants[v+1].ID
		at := r.start + protocol.Time(r.rng.Int64N(20_000))*protocol.Millisecond
		end := at + protocol.Time(r.rng.Int64N(8_000))*protocol.Millisecond
		switch r.rng.IntN(3) {
		case 0:
			faults["cut"]++
			r.sim.At(at, func() { r.sim.Cut(id) })
			r.sim.At(end, func() { r.sim.Reconnect(id) })
		case 1:
			faults["pause"]++
			r.sim.At(at, func() { r.sim.Pause(id) })
			r.sim.At(end, func() { r.sim.Resume(id) })
		case 2:
			faults["crash"]++
			r.sim.At(at, func() { r.sim.Crash(id) })
			if s.Participants[v+1].Parent == "" {
				r.drop(id)
				continue
			}
			faults["restart"]++ // in a static tree its children have nowhere else to go
			r.sim.At(end, func() { r.sim.Restart(id) })
		}
	}
	if r.rng.IntN(2) == 0 {
		faults["loss and duplication"]++
		bad := s.Network
		bad.Loss, bad.Duplicate = 0.02, 0.02
		r.sim.At(r.start, func() { r.sim.SetNetwork(bad) })
		r.sim.At(r.start+span/2, func() { r.sim.SetNetwork(s.Network) })
	}
}

func (r *run) drop(id string) {
	for i, a := range r.alive {
		if a == id {
			r.alive = append(r.alive[:i:i], r.alive[i+1:]...)
			return
		}
	}
}

// result runs the simulation and returns the entries of each living participant
// in the second half.
func (r *run) result(t *testing.T) map[string]int {
	res, err := r.sim.Run()
	if err != nil {
		t.Fatalf("seed %d: %v", r.seed, err)
	}
	entries := map[string]int{}
	for _, id := range r.alive {
		entries[id] = res.AtNode(id) - r.half[id]
	}
	return entries
}
