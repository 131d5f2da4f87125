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

// PADME runs sim.PaperScenario with the models m: each participant asks again when
// latency has passed since it left.
func PADME(m protocol.Models, latency protocol.Duration) (PADMERow, error) {
	r, err := Run(padme.Algorithm, sim.PaperScenario(m, latency))
	if err != nil {
		return PADMERow{}, err
	}
	return padmeRow(m, r), nil
}

// PADMEReady is PADME with another request policy: the next request of each
// participant is there at the moment at which it leaves.
func PADMEReady(m protocol.Models, latency protocol.Duration) (PADMERow, error) {
	sc := sim.PaperScenario(m, latency)
	sc.Workload = sim.Workload{}
	var s *sim.Sim
	ask := func(node string) func() {
		return func() {
			s.Request(node, sim.Request{Resource: sim.PaperResource, Hold: protocol.Second})
		}
	}
	sc.Trace = func(r *sim.Record) {
		if r.Event == sim.Entered { // actions come before the leave at the same instant
			s.At(r.At+protocol.Second, ask(r.Node))
		}
	}
	s, err := sim.New(padme.Algorithm, sc)
	if err != nil {
		return PADMERow{}, err
	}
	for i := range sc.Participants {
		s.At(sc.Start, ask(sc.Participants[i].ID))
	}
	r, err := s.Run()
	if err != nil {
		return PADMERow{}, err
	}
	return padmeRow(m, r), nil
}

func padmeRow(m protocol.Models, r *sim.Result) PADMERow {
	return PADMERow{
		Models: m, High: r.AtPriority(0), Medium: r.AtPriority(1), Low: r.AtPriority(2), PerEntry: r.PerEntry(),
	}
}

// Centralized and Optimum are the entries in the experiments of PADME §4 when a
// Release and a Reply lie between two of them, and when one message does.
func Centralized(latency protocol.Duration) int { return padmeEntries(2 * latency) }

// Optimum is explained at Centralized.
func Optimum(latency protocol.Duration) int { return padmeEntries(latency) }

func padmeEntries(delay protocol.Duration) int {
	return int(sim.PaperScenario(protocol.Models{}, protocol.Second).Duration / (protocol.Second + delay))
}

// PADMEWorkedOut is what follows from the rules of PADME for one combination at t_m = 1 s
// or 0.5 s, in the experiment of PADME: the entries, up to start and end effects of ±2,
// and the messages per entry with the Forward request model. Which request model is
// used does not matter for the entries; Replace sends fewer messages.
func PADMEWorkedOut(m protocol.Models, latency protocol.Duration) PADMERow {
	rows := [...]PADMERow{
		{High: 90, Medium: 90, PerEntry: 1.5},
		{High: 14, Medium: 28, Low: 52, PerEntry: 30. / 7},
		{High: 53, Medium: 52, Low: 50, PerEntry: 7. / 3},
		{High: 46, Medium: 90, Low: 44, PerEntry: 2},
	}
	if latency < protocol.Second {
		rows = [...]PADMERow{
			{High: 120, Medium: 120, PerEntry: 1.5},
			{High: 22, Medium: 43, Low: 84, PerEntry: 30. / 7},
			{High: 73, Medium: 73, Low: 71, PerEntry: 7. / 3},
			{High: 61, Medium: 120, Low: 59, PerEntry: 2},
		}
	}
	class := 0
	if m.Priority == protocol.Fair {
		class = 1
		for _, pass := range []protocol.PassModel{m.Reply, m.Release} {
			if pass == protocol.Use {
				class++
			}
		}
	}
	row := rows[class]
	row.Models = m
	return row
}
