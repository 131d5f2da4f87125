package bench

import (
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// PADMERow is what one combination of models shows in the experiments of PADME §4.
type PADMERow struct {
	Models            protocol.Models
	High, Medium, Low int     // entries
	PerEntry          float64 // messages
}

// Total is the number of entries.
func (r PADMERow) Total() int { return r.High + r.Medium + r.Low }

// PADME runs sim.PaperScenario with the models m. Each participant asks again when
// think has passed since it left; in the papers that is the message time.
func PADME(m protocol.Models, latency, think protocol.Duration) (PADMERow, error) {
	sc := sim.PaperScenario(m, latency)
	sc.Workload.Think = sim.Constant(think)
	r, err := Run(padme.Algorithm, sc)
	if err != nil {
		return PADMERow{}, err
	}
	return PADMERow{
		Models: m, High: r.AtPriority(0), Medium: r.AtPriority(1), Low: r.AtPriority(2), PerEntry: r.PerEntry(),
	}, nil
}

// Centralised and Optimum are the entries in the experiments of PADME §4 when a
// Release and a Reply lie between two of them, and when one message does.
func Centralised(latency protocol.Duration) int { return padmeEntries(2 * latency) }

// Optimum is explained at Centralised.
func Optimum(latency protocol.Duration) int { return padmeEntries(latency) }

func padmeEntries(delay protocol.Duration) int {
	return int(sim.PaperScenario(protocol.Models{}, protocol.Second).Duration / (protocol.Second + delay))
}
