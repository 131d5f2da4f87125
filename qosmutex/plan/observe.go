package plan

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// Outcome is what became of a request in a run that was no simulation. Times are from the
// start of the run.
type Outcome struct {
	Priority int64             `json:"priority"`
	Asked    protocol.Time     `json:"asked"`
	Within   protocol.Duration `json:"within,omitempty"` // it should be inside after that time; 0: no deadline
	End      End               `json:"end"`
	At       protocol.Time     `json:"at"` // of the end
}

// End is how a request ended.
type End uint8

// Ends. A request that Waits when the run is over counts with what it has waited so far.
const (
	Waits   End = iota
	Entered     // At that time it was inside
	Refused     // its deadline, at once
	Missed      // its deadline: it was withdrawn, or refused later
)

// Observed are the figures of a run that lasted that long, by the rules of a simulated one:
// waiting times, entries, and deadlines.
func Observed(outcomes []Outcome, lasted protocol.Duration) Figures {
	all := Figures{"entries": 0, "missed": 0, "refused": 0}
	waits := map[int64][]protocol.Duration{}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Asked >= lasted {
			continue
		}
		end, at := o.End, o.At
		if end == Waits || at >= lasted {
			end, at = Waits, lasted
		}
		switch end {
		case Refused:
			all["refused"]++
			continue
		case Missed:
			all["missed"]++
			continue
		case Entered:
			all["entries"]++
		}
		if o.Within > 0 && at-o.Asked > o.Within {
			all["missed"]++
		}
		waits[o.Priority] = append(waits[o.Priority], at-o.Asked)
	}
	var total []protocol.Duration
	for p, w := range waits {
		all.addWaits(fmt.Sprintf("[%d]", p), w)
		total = append(total, w...)
	}
	if len(total) > 0 {
		all.addWaits("", total)
	}
	return all
}

func (f Figures) addWaits(of string, waits []protocol.Duration) {
	slices.Sort(waits)
	s := sim.SampleOf(waits...)
	for name, d := range map[string]protocol.Duration{"p50": s.Quantile(0.5), "p99": s.Quantile(0.99), "max": s.Quantile(1), "mean": s.Mean()} {
		f["wait."+name+of] = float64(d) / float64(protocol.Second)
	}
}
