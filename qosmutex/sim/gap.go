package sim

import "padme/qosmutex/protocol"

// Gap is a time in which a request waits for a resource that is not held: what a handoff
// costs, and what a lost token or a frozen topic costs. A request for Any waits for
// every declared resource. Requests of participants that were Absent at first don't
// count, for they may still look for a place in the topic.
type Gap struct {
	Resource string
	From     protocol.Time // since when
	For      protocol.Duration
}

// LongestGap is the longest since the start, or since the last ResetGaps. One that
// goes on counts with what it has lasted so far.
func (s *Sim) LongestGap() Gap {
	longest := s.longestGap
	for _, r := range s.resources {
		if r.gap != noGap && s.now-r.gap > longest.For {
			longest = Gap{r.name, r.gap, s.now - r.gap}
		}
	}
	return longest
}

// ResetGaps forgets the gaps so far. Those that go on begin again.
func (s *Sim) ResetGaps() {
	s.longestGap = Gap{}
	for _, r := range s.resources {
		if r.gap != noGap {
			r.gap = s.now
		}
	}
}

// noGap is since when a resource has a gap that has none.
const noGap = protocol.Never

// asks notes that so many more requests of participant i wait for r.
func (s *Sim) asks(i int32, r *resource, more int) {
	if s.nodes[i].Absent {
		return
	}
	r.asking += more
	if r != s.any {
		s.updateGap(r)
		return
	}
	for _, r := range s.resources {
		s.updateGap(r)
	}
}

func (s *Sim) updateGap(r *resource) {
	waited := r != s.any && (r.asking > 0 || r.declared && s.any.asking > 0)
	switch open := waited && len(r.holds) == 0; {
	case open && r.gap == noGap:
		r.gap = s.now
	case !open && r.gap != noGap:
		if s.now-r.gap > s.longestGap.For {
			s.longestGap = Gap{r.name, r.gap, s.now - r.gap}
		}
		r.gap = noGap
	}
}
