package algorithms_test

import (
	"testing"

	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/static"
)

// What runs over MQTT is the algorithm on channels that repeat. Here the network
// loses, doubles and reorders, and everybody still gets in, one at a time.
func TestEveryStaticAlgorithmOnALossyNetwork(t *testing.T) {
	for _, a := range papers.Algorithms() {
		if !a.Static {
			continue // PADME has tests/simulation
		}
		t.Run(a.Name, func(t *testing.T) {
			for seed := range uint64(5) {
				s, err := sim.New(static.OverLossyChannels(a), lossy(seed, a.Name))
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Run()
				if err != nil {
					t.Fatal(err)
				}
				if r.LostMessages == 0 {
					t.Fatal("nothing was lost")
				}
				least := 10
				switch a.Name {
				case "maekawa-naive": // may stand still; that it excludes is checked by the run
					continue
				case "voting", "voting-forgetful": // bounds nobody's wait
					least = 0
				}
				for _, n := range r.ByNode {
					if n.Entries < least || r.Entries < 50 {
						t.Errorf("seed %d: %s entered %d times\n%v", seed, n.Node, n.Entries, r)
					}
				}
			}
		})
	}
}

func lossy(seed uint64, name string) sim.Scenario {
	timing := protocol.LAN()
	return sim.Scenario{
		Seed: seed, Participants: sim.Tree(7, 2, false), Timing: timing, Fanout: 2,
		Settings: protocol.Settings{Resources: []string{resource}},
		Network: sim.Network{
			Latency: sim.Uniform(protocol.Millisecond, timing.Hop), Reorder: true, Loss: 0.1, Duplicate: 0.1,
		},
		Order: sim.Shuffled,
		Workload: sim.Workload{
			Resources: []string{resource}, Hold: sim.Exponential(10 * protocol.Millisecond), Think: sim.Exponential(200 * protocol.Millisecond),
		},
		Duration:     120 * protocol.Second,
		AllowOverlap: name == "voting-forgetful", // its coordinators forget: see tests/papers
	}
}
