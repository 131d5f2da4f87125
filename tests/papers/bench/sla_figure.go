package bench

import (
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
	"padme/qosmutex/sla"
)

// SLAFigureParents holds, for each node of Figure 1 of the SLA paper from 1 on, its
// parent; 0 for the root.
var SLAFigureParents = []int{0, 1, 1, 2, 2, 3, 3, 3, 12, 5, 6, 8}

// slaAsked are the requests of Figure 1, in the order in which they are made: those
// of Figure 1(a), then the five that arrive. Priorities are the paper's.
var slaAsked = []struct{ node, priority int }{
	{4, 1}, {2, 1}, {3, 0}, {11, 3}, {10, 3}, {7, 3}, {8, 2}, {9, 3},
}

// SLAFigureOrder plays Figure 1 with algorithm a: node 1 is inside until all have
// asked, each settled before the next. It returns in which order they enter.
func SLAFigureOrder(a protocol.Algorithm) ([]string, error) {
	const hop = protocol.Millisecond
	sc := sim.Scenario{
		Timing:   protocol.LAN(),
		Settings: protocol.Settings{Resources: []string{sim.PaperResource}},
		Network:  sim.Network{Latency: sim.Constant(hop)},
		Duration: 100 * protocol.Second,
	}
	for i, parent := range SLAFigureParents {
		p := sim.Participant{ID: nodeName(i + 1)}
		if parent > 0 {
			p.Parent = nodeName(parent)
		}
		sc.Participants = append(sc.Participants, p)
	}
	var order []string
	sc.Trace = func(r *sim.Record) {
		if r.Event == sim.Entered {
			order = append(order, r.Node)
		}
	}
	s, err := sim.New(a, sc)
	if err != nil {
		return nil, err
	}
	first := s.Request(nodeName(1), sim.Request{Resource: sim.PaperResource, Hold: sim.Forever})
	for i, q := range slaAsked {
		s.At(protocol.Duration(i+1)*100*hop, func() {
			s.Request(nodeName(q.node), sim.Request{
				Resource: sim.PaperResource, Hold: hop, Fixed: true, Priority: int64(sla.Levels - 1 - q.priority),
			})
		})
	}
	s.At(protocol.Second, func() { s.Leave(first) })
	if _, err := s.Run(); err != nil {
		return nil, err
	}
	return order[1:], nil // without node 1, which was there before
}
