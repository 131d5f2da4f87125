package sim

import (
	"cmp"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// Arrival is one request of a recorded load, made whatever became of earlier ones.
type Arrival struct {
	At   protocol.Time // counted from Scenario.Start
	Node string
	Request
}

func (s *Scenario) validateArrivals(known map[string]bool) error {
	for i := range s.Arrivals {
		a := &s.Arrivals[i]
		switch {
		case !known[a.Node]:
			return fmt.Errorf("%w: arrival %d is at %q, who does not take part", ErrScenario, i+1, a.Node)
		case a.At < 0 || a.At > longest || a.Hold < 0 || a.Within < 0 || a.Within > longest:
			return fmt.Errorf("%w: arrival %d at %s has a negative or endless time", ErrScenario, i+1, a.Node)
		case a.Resource == "":
			return fmt.Errorf("%w: arrival %d at %s names no resource", ErrScenario, i+1, a.Node)
		}
	}
	return nil
}

// prepareArrivals plans the first of the scenario's arrivals; each plans the next,
// so that the queue of events stays short.
func (s *Sim) prepareArrivals() {
	s.scenario.Arrivals = slices.Clone(s.scenario.Arrivals)
	slices.SortStableFunc(s.scenario.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	s.planArrival(0)
}

func (s *Sim) planArrival(next int) {
	if next < len(s.scenario.Arrivals) {
		a := &s.scenario.Arrivals[next]
		s.schedule(event{at: s.scenario.Start + a.At, kind: eventArrival, node: s.index[a.Node], slot: int32(next)})
	}
}

// arrive makes a recorded request. A participant that does not run makes none.
func (s *Sim) arrive(e event) {
	if s.nodes[e.node].machine == nil || s.now >= s.end() || s.early(e) {
		return
	}
	r := s.scenario.Arrivals[e.slot].Request
	s.request(e.node, &r, false)
}
