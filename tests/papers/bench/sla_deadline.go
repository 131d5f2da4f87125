package bench

import (
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// SLADeadline is the experiment with response times of the SLA paper, §IV-C: a
// complete binary tree of 20, critical sections of 25 to 50 ms and response times of
// 600, 900, 1200 or 1500 ms drawn for each request, 30 ms for each link, 60 s. Tight
// draws response times of 150, 250, 350 or 450 ms instead, which the paper does not:
// from most of the tree to most of it, the token alone takes longer.
//
// The paper does not say how long a participant waits before it asks again after it
// has left or was refused, but that about half of the participants wait at any time.
// Here that time is drawn evenly from 0 to 600 ms (ρ = 8 on average), with which 8 to
// 9 of the 20 wait for an answer or the token.
func SLADeadline(seed uint64, tight bool) sim.Scenario {
	const hop = 30 * protocol.Millisecond
	least, step := 600*protocol.Millisecond, 300*protocol.Millisecond
	if tight {
		least, step = 150*protocol.Millisecond, 100*protocol.Millisecond
	}
	timing := protocol.LAN()
	timing.Hop = hop
	return sim.Scenario{
		Seed:         seed,
		Participants: sim.Tree(20, 2, false),
		Timing:       timing,
		Settings:     protocol.Settings{Resources: []string{sim.PaperResource}},
		Network:      sim.Network{Latency: sim.Constant(hop)},
		Workload: sim.Workload{
			Resources: []string{sim.PaperResource},
			Hold:      sim.Uniform(25*protocol.Millisecond, 50*protocol.Millisecond),
			Think:     sim.Uniform(0, 600*protocol.Millisecond),
			Deadlines: []protocol.Duration{least, least + step, least + 2*step, least + 3*step},
		},
		Duration: 60 * protocol.Second,
	}
}

// SLADeadlineMapped is SLADeadline for an algorithm of the priority family, as the
// paper compares it: the shorter the response time, the higher the priority, and
// whoever misses its deadline gives up and makes a new request. Run it with the
// algorithm returned, which does the mapping.
func SLADeadlineMapped(a protocol.Algorithm, seed uint64) (protocol.Algorithm, sim.Scenario) {
	s := SLADeadline(seed, false)
	s.Workload.GiveUp = true
	levels := s.Workload.Deadlines
	plain := a.New
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		m, err := plain(cfg)
		return &mapped{Machine: m, levels: levels}, err
	}
	return a, s
}

// mapped gives requests the priority of their response time.
type mapped struct {
	protocol.Machine
	levels []protocol.Duration // from the shortest
}

func (m *mapped) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Acquire {
		with := *in
		with.Priority, with.Fixed = int64(slices.Index(m.levels, in.Within)), true
		in = &with
	}
	return m.Machine.Step(now, in, out)
}
