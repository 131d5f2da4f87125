package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Thirty participants wait for one lock, again and again, and every third of a second
// one that waits is killed; it starts again after a TTL. So the head of the queue has
// often died just before it is granted the token. In a tree, those that die are also
// relays of others, and some have the token on its way.
func TestWaitersThatDieHoldUpNobodyForLong(t *testing.T) {
	ttl := protocol.LAN().TTL
	for _, c := range []struct {
		name    string
		fanout  int
		models  protocol.Models
		longest protocol.Duration
	}{
		{"children of the root", 40, protocol.Models{}, ttl},
		{"a tree", 5, protocol.Models{Priority: protocol.Fair, Request: protocol.RequestReplace}, 3 * ttl / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(8) {
				gap, entries := dyingWaiters(t, seed, c.fanout, c.models)
				t.Logf("seed %d: %d entries, the longest time without one %.2f s", seed, entries, float64(gap)/float64(protocol.Second))
				if gap > c.longest {
					t.Errorf("seed %d: nobody entered for %.2f s", seed, float64(gap)/float64(protocol.Second))
				}
			}
		})
	}
}

func dyingWaiters(t *testing.T, seed uint64, fanout int, models protocol.Models) (gap protocol.Duration, entries int) {
	const (
		second = protocol.Second
		start  = 10 * second
		end    = start + 60*second
	)
	random := rand.New(rand.NewPCG(seed, 1))
	sc := sim.Scenario{
		Seed: seed, Timing: protocol.LAN(), Settings: protocol.Settings{Models: models, Resources: []string{"x"}}, Fanout: fanout,
		Participants: []sim.Participant{{ID: "root", Root: true, Workload: &sim.Workload{}}},
		Network:      sim.Network{Latency: sim.Uniform(protocol.Millisecond, 3*protocol.Millisecond)},
		Order:        sim.Shuffled,
		Workload:     sim.Workload{Resources: []string{"x"}, Hold: sim.Constant(50 * protocol.Millisecond)},
		Start:        start, Duration: end - start,
	}
	inside, last := "", start
	sc.Trace = func(r *sim.Record) {
		switch r.Event {
		case sim.Entered:
			if r.At >= start {
				gap, last, entries = max(gap, r.At-last), r.At, entries+1
			}
			inside = r.Node
		case sim.Left, sim.HoldLost:
			inside = ""
		}
	}
	var alive []string
	for i := range 30 {
		id := fmt.Sprintf("w%02d", i)
		sc.Participants = append(sc.Participants, sim.Participant{ID: id, Priority: 1})
		alive = append(alive, id)
	}
	s, err := sim.New(padme.Algorithm, sc)
	if err != nil {
		t.Fatal(err)
	}
	for at := start; at < end; at += second / 3 {
		s.At(at, func() {
			waiting := slices.DeleteFunc(slices.Clone(alive), func(id string) bool { return id == inside })
			id := waiting[random.IntN(len(waiting))]
			s.Crash(id)
			alive = slices.DeleteFunc(alive, func(o string) bool { return o == id })
			s.At(s.Now()+3*second, func() {
				s.Restart(id)
				alive = append(alive, id)
			})
		})
	}
	if err := s.RunUntil(end); err != nil {
		t.Fatal(err)
	}
	return max(gap, end-last), entries
}
