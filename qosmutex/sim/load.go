package sim

import "padme/qosmutex/protocol"

// load integrates over the measured time how many requests wait and are inside.
type load struct {
	waiting int
	since   protocol.Time // of that number
	area    float64       // requests × nanoseconds
	inside  protocol.Duration
	moved   protocol.Time // the last entry or leave
}

// within is how much of the time from one instant to another is measured.
func (s *Sim) within(from, to protocol.Time) protocol.Duration {
	return max(0, min(to, s.end())-max(from, s.scenario.Start))
}

// wait changes how many wait.
func (l *load) wait(s *Sim, by int) {
	l.area += float64(l.waiting) * float64(s.within(l.since, s.now))
	l.since = s.now
	l.waiting += by
}

// stayed adds the stay of a call that is inside until now.
func (l *load) stayed(s *Sim, c *call) {
	l.moved = s.now
	stay := s.within(c.since, s.now)
	l.inside += stay
	if c.hold != Forever && s.now-c.since > c.hold && s.measuring() {
		s.result.Overstayed++
	}
}

// summary brings the Result up to the present instant.
func (s *Sim) summary() {
	r := &s.result
	r.Measured = s.within(s.scenario.Start, s.now)
	r.Events = s.eventsRun
	s.load.wait(s, 0)
	r.AverageWaiting = 0
	if r.Measured > 0 {
		r.AverageWaiting = s.load.area / float64(r.Measured)
	}
	r.Inside = s.load.inside
	r.Starvation = Starvation{}
	r.Deadlines.overdue = 0
	for i := range r.ByNode {
		r.ByNode[i].Unserved = Unserved{}
	}
	for i := range r.ByPriority {
		r.ByPriority[i].Unserved = Sample{}
	}
	var held bool
	for i := range s.calls {
		c := &s.calls[i]
		switch {
		case c.ref == 0 || c.over:
		case c.inside:
			r.Inside += s.within(c.since, s.now)
			held = held || c.hold == Forever || s.now-c.since <= c.hold
		default:
			r.unserved(c, s.now-c.since)
			if s.now > c.deadline {
				r.Deadlines.overdue++
			}
		}
	}
	for i := range r.ByNode {
		if n := &r.ByNode[i]; n.Asked > 0 && n.Entries == 0 {
			r.Starvation.Nodes = append(r.Starvation.Nodes, n.Node)
		}
	}
	r.Stopped = 0
	if still := min(s.now-max(s.load.moved, s.scenario.Start), r.Starvation.Longest); !held && still > 0 && still >= r.Measured/10 {
		r.Stopped = still
	}
	r.Fairness = 0
	if r.Stopped == 0 {
		r.Fairness = r.jain(func(i int) bool { return len(s.nodes[i].workload.Resources) > 0 || r.ByNode[i].Asked > 0 })
	}
}
