package bench

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// SLAPriorityRho is the ratio ρ of the mean think time to the critical section at
// which about ten of the twenty participants of [SLAPriority] wait on average.
const SLAPriorityRho = 11

// SLAPriority is the priority benchmark of the SLA paper (§IV-A, §IV-B): a complete
// binary tree of 20 participants, each of which asks again and again, every time
// with one of eight priorities drawn at random. The paper says neither how long a
// message takes nor a critical section; it says that the critical section is
// executed 90 % of the time, which is so when it lasts 20 messages.
func SLAPriority(seed uint64) sim.Scenario {
	const (
		hop   = protocol.Millisecond
		alpha = 20 * hop
	)
	return sim.Scenario{
		Seed:         seed,
		Participants: sim.Tree(20, 2, false),
		Timing:       protocol.LAN(),
		Settings:     protocol.Settings{Resources: []string{sim.PaperResource}},
		Network:      sim.Network{Latency: sim.Constant(hop)},
		Workload: sim.Workload{
			Resources: []string{sim.PaperResource}, Hold: sim.Constant(alpha), Think: sim.Exponential(SLAPriorityRho * alpha),
			Priorities: []int64{0, 1, 2, 3, 4, 5, 6, 7},
		},
		Start:    20 * alpha,
		Duration: 5000 * alpha,
		Fast:     true,
	}
}
