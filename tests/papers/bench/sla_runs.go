package bench

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/sla"
)

// SLAPriorityRow is what one algorithm shows in Figure 2 of the SLA paper, over all
// seeds. Shares are in per cent, times in milliseconds.
type SLAPriorityRow struct {
	Victims    Spread // share of the entries whose request had been overtaken
	Overtakers Spread // share of the entries that overtook a request
	Requests   Spread // messages per entry
	Tokens     Spread // messages per entry
	Rate       Spread // share of the time that somebody is inside
	Waiting    Spread // requests, on average
	ByPriority [sla.Levels]struct {
		Victims  Spread // share of the entries of that priority
		Response Spread // mean time from the request to the entry
	}
}

// PerEntry is the mean of the messages per entry.
func (r *SLAPriorityRow) PerEntry() float64 { return r.Requests.Mean + r.Tokens.Mean }

// SLAPriorityOf runs SLAPriority with each seed.
func SLAPriorityOf(a protocol.Algorithm) (*SLAPriorityRow, error) {
	runs, err := seeds(func(seed uint64) (*sim.Result, error) { return Run(a, SLAPriority(seed)) })
	if err != nil {
		return nil, err
	}
	row := &SLAPriorityRow{
		Victims:    over(runs, func(r *sim.Result) float64 { return share(float64(r.Inversions.Victims), float64(r.Entries)) }),
		Overtakers: over(runs, func(r *sim.Result) float64 { return share(float64(r.Inversions.Overtakers), float64(r.Entries)) }),
		Requests:   over(runs, perEntry(protocol.KindRequest)),
		Tokens:     over(runs, perEntry(protocol.KindToken)),
		Rate:       over(runs, func(r *sim.Result) float64 { return 100 * r.Rate() }),
		Waiting:    over(runs, func(r *sim.Result) float64 { return r.AverageWaiting }),
	}
	for p := range row.ByPriority {
		row.ByPriority[p].Victims = over(runs, func(r *sim.Result) float64 {
			e := atPriority(r, int64(p))
			return share(float64(e.Victims), float64(e.Entries))
		})
		row.ByPriority[p].Response = over(runs, func(r *sim.Result) float64 {
			return float64(atPriority(r, int64(p)).Waiting.Mean()) / float64(protocol.Millisecond)
		})
	}
	return row, nil
}

// atPriority are the entries of one priority; none if there are none.
func atPriority(r *sim.Result, p int64) *sim.PriorityEntries {
	for i := range r.ByPriority {
		if r.ByPriority[i].Priority == p {
			return &r.ByPriority[i]
		}
	}
	return &sim.PriorityEntries{}
}

// SLADeadlineRow is what one algorithm shows in Figure 3 of the SLA paper, over all
// seeds.
type SLADeadlineRow struct {
	Missed  Spread // share of the requests that were not refused, in per cent
	Refused Spread // share of all requests, in per cent
	Rate    Spread // share of the time that somebody is inside, in per cent
	Waiting Spread // requests, on average
	// Messages: tokens for each entry, the others for each request, as the paper
	// counts them (§IV-A).
	Tokens, Requests, Acks, Denials Spread
}

// SLADeadlineOf runs what experiment draws for each seed.
func SLADeadlineOf(experiment func(seed uint64) (protocol.Algorithm, sim.Scenario)) (*SLADeadlineRow, error) {
	runs, err := seeds(func(seed uint64) (*sim.Result, error) { return Run(experiment(seed)) })
	if err != nil {
		return nil, err
	}
	return &SLADeadlineRow{
		Missed: over(runs, func(r *sim.Result) float64 {
			return share(float64(r.Deadlines.Missed()), float64(r.Deadlines.Admitted()))
		}),
		Refused: over(runs, func(r *sim.Result) float64 {
			return share(float64(r.Deadlines.Refused), float64(r.Deadlines.Refused+r.Deadlines.Admitted()))
		}),
		Rate:     over(runs, func(r *sim.Result) float64 { return 100 * r.Rate() }),
		Waiting:  over(runs, func(r *sim.Result) float64 { return r.AverageWaiting }),
		Tokens:   over(runs, perEntry(protocol.KindToken)),
		Requests: over(runs, perRequest(protocol.KindRequest)),
		Acks:     over(runs, perRequest(protocol.KindAck)),
		Denials:  over(runs, perRequest(protocol.KindDeny)),
	}, nil
}

// SLADeadlineWith is the experiment of SLADeadline for a variant of the response-time
// algorithm, in the form of SLADeadlineOf.
func SLADeadlineWith(o sla.DeadlineOptions, tight bool) func(seed uint64) (protocol.Algorithm, sim.Scenario) {
	a := sla.Deadline(o)
	return func(seed uint64) (protocol.Algorithm, sim.Scenario) { return a, SLADeadline(seed, tight) }
}

// SLADeadlineAs is SLADeadlineMapped in the form of SLADeadlineOf.
func SLADeadlineAs(a protocol.Algorithm) func(seed uint64) (protocol.Algorithm, sim.Scenario) {
	return func(seed uint64) (protocol.Algorithm, sim.Scenario) { return SLADeadlineMapped(a, seed) }
}

func seeds(run func(seed uint64) (*sim.Result, error)) ([]*sim.Result, error) {
	var all []*sim.Result
	for seed := range uint64(Seeds) {
		r, err := run(seed)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func over(runs []*sim.Result, what func(*sim.Result) float64) Spread {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = what(r)
	}
	return SpreadOf(values)
}

func perEntry(k protocol.Kind) func(*sim.Result) float64 {
	return func(r *sim.Result) float64 { return ratio(r.Sent[k], r.Entries) }
}

func perRequest(k protocol.Kind) func(*sim.Result) float64 {
	return func(r *sim.Result) float64 {
		asked := 0
		for i := range r.ByNode {
			asked += r.ByNode[i].Asked
		}
		return ratio(r.Sent[k], asked)
	}
}

func ratio(messages uint64, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(messages) / float64(n)
}

// SLADeadlineAfter is SLADeadlineAs where the time from a leave or a missed deadline
// to the next request is drawn from think.
func SLADeadlineAfter(a protocol.Algorithm, think sim.Distribution) func(seed uint64) (protocol.Algorithm, sim.Scenario) {
	return func(seed uint64) (protocol.Algorithm, sim.Scenario) {
		mapped, sc := SLADeadlineMapped(a, seed)
		sc.Workload.Think = think
		return mapped, sc
	}
}
