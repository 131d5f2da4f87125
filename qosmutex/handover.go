package qosmutex

import (
	"slices"
	"time"
)

// maxPassages is how many passages through a resource are remembered before
// their order is believed: events of different participants arrive in any order,
// and each participant's in batches.
const maxPassages = 64

// passage is one stay inside, as told by its events.
type passage struct {
	fence   uint64
	in, out time.Time // zero: not told yet
	waited  time.Duration

	entered, left bool // was told, and counted
}

// passages are the last ones through a resource, in order of fence.
type passages []passage

// at returns the passage with this fence, made if need be.
func (p *passages) at(fence uint64) *passage {
	i, ok := slices.BinarySearchFunc(*p, fence, func(e passage, fence uint64) int {
		switch {
		case e.fence < fence:
			return -1
		case e.fence > fence:
			return 1
		}
		return 0
	})
	if !ok {
		*p = slices.Insert(*p, i, passage{fence: fence})
	}
	return &(*p)[i]
}

// handOver notes an event and observes the oldest hand-over when it is settled:
// from the one's leaving to the next one's entry, if that one waited then. The
// times are of two participants' wall clocks.
func (t *Topic) handOver(p *passages, e *Event, fence uint64) {
	if len(*p) > 0 && fence < (*p)[0].fence {
		return // settled already
	}
	s := p.at(fence)
	t.metrics.tell(e, s)
	switch e.Event {
	case EventGranted:
		s.in, s.waited = e.At, time.Duration(e.Waited*float64(time.Second))
	case EventReleased, EventLost:
		s.out = e.At
	}
	for len(*p) > maxPassages {
		first, next := (*p)[0], (*p)[1]
		if d := next.in.Sub(first.out); !first.out.IsZero() && !next.in.IsZero() && d >= 0 && d <= next.waited {
			observe(t.metrics.handover, d.Seconds())
		}
		*p = slices.Delete(*p, 0, 1)
	}
}
