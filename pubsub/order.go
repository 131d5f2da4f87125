package pubsub

import (
	"cmp"
	"errors"
	"strings"
)

// errLate is why a sample is dropped whose place in the order by source time is
// before one that was given already.
var errLate = errors.New("pubsub: a newer sample of the instance has come before")

// moment is a place in the order by source time.
type moment struct {
	nanos  uint64
	writer GUID
}

// compare orders writers of equal time by their GUIDs, so that all readers agree.
func (m moment) compare(o moment) int {
	return cmp.Or(
		cmp.Compare(m.nanos, o.nanos),
		strings.Compare(m.writer.Participant, o.writer.Participant),
		cmp.Compare(m.writer.Incarnation, o.writer.Incarnation),
		strings.Compare(m.writer.Endpoint, o.writer.Endpoint),
	)
}

// late reports whether s comes too late for the order by source time, if that
// is asked for or its writer is gone, and otherwise remembers it. That a writer
// leaves an instance is true whenever it is heard.
func (c *instances) late(i *instance, s *inSample) bool {
	if !c.qos.BySourceTime && c.qos.Durability < Transient || s.status == statusUnregister {
		return false
	}
	m := moment{s.nanos, s.writer.guid}
	if m.compare(i.newest) < 0 {
		return c.qos.BySourceTime || s.orphan
	}
	i.newest = m
	return false
}

// stamp makes the source times of a writer grow, which a wall clock that is set
// back does not, so that its own samples never come late.
func (s *sender) stamp(e *envelope) {
	if s.qos.BySourceTime {
		e.nanos = max(e.nanos, s.stamped+1)
		s.stamped = e.nanos
	}
}
