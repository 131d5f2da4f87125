package cache

import (
	"cmp"
	"errors"

	"padme/pubsub/internal/wire"
)

// ErrLate is why a sample is dropped whose place in the order by source time is
// before one that was given already.
var ErrLate = errors.New("pubsub: a newer sample of the instance has come before")

// moment is a place in the order by source time.
type moment struct {
	nanos  uint64
	writer wire.GUID
}

func (s *Sample) moment() moment { return moment{s.Nanos, s.Writer.GUID} }

// compare orders writers of equal time by their GUIDs, so that all readers agree.
func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(m.nanos, o.nanos), m.writer.Compare(o.writer))
}

// Compare orders samples by source time, and those of one time by their writers.
func (s *Sample) Compare(o *Sample) int { return s.moment().compare(o.moment()) }

// late reports whether s comes too late for the order by source time, and otherwise
// remembers it. That order counts if it is asked for, for what is of a writer that is gone,
// and for what only a strength lets count that its writer has no more: the owner has written
// since. That a writer leaves an instance is true whenever it is heard.
func (c *Cache) late(i *instance, s *Sample) bool {
	if !c.policies.BySourceTime && !c.policies.Transient && !c.policies.Exclusive || s.Status == wire.StatusUnregister {
		return false
	}
	m := s.moment()
	if m.compare(i.newest) < 0 {
		return c.policies.BySourceTime || s.Orphan || !i.grants(s.Writer)
	}
	i.newest = m
	return false
}
