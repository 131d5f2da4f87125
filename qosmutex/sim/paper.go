package sim

import "padme/qosmutex/protocol"

// PaperResource is the resource of PaperScenario.
const PaperResource = "crane"

// PaperScenario is the experiment of PADME §4: a complete binary tree of seven
// (one of high, two of medium, four of low importance), critical sections of 1 s,
// 360 s, a message takes latency, and each participant asks again latency after
// it leaves. Applications act before messages arrive at the same instant, as the
// paper's own correction demands. Heartbeats are rare, so that sessions last
// however slow the network is.
func PaperScenario(m protocol.Models, latency protocol.Duration) Scenario {
	return Scenario{
		Participants: Tree(7, 2, false),
		Timing: protocol.Timing{
			TTL: 60 * latency, Heartbeat: 12 * latency, Drift: 0.01, JoinWait: 3 * latency, MoveAfter: 60 * latency,
		},
		Settings: protocol.Settings{Models: m, Resources: []string{PaperResource}},
		Network:  Network{Latency: Constant(latency)},
		Workload: Workload{Resources: []string{PaperResource}, Hold: Constant(protocol.Second), Think: Constant(latency)},
		Start:    100 * latency,
		Duration: 360 * protocol.Second,
	}
}
