package reliable

import (
	"slices"
	"time"

	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wire"
)

// ending is when a written sample ends, from sender.born on.
type ending struct {
	seq uint64
	due time.Duration
}

// hasLifespan notes the end of the sample that was written and is held.
func (s *Sender) hasLifespan(what wire.Status) {
	if s.qos.Lifespan == 0 || what != wire.StatusData {
		return // that an instance is gone does not become untrue
	}
	if s.born.IsZero() {
		s.born = time.Now()
	}
	due := time.Since(s.born) + s.qos.Lifespan
	at := len(s.expiring)
	for at > 0 && s.expiring[at-1].due > due { // the Lifespan was longer
		at--
	}
	s.expiring = slices.Insert(s.expiring, at, ending{s.seq, due})
	if len(s.expiring) > 2*len(s.held)+64 {
		s.expiring = slices.DeleteFunc(s.expiring, func(e ending) bool { return s.held[e.seq] == nil })
	}
}

// expire forgets samples that have outlived their lifespan, whoever lacks them.
func (s *Sender) expire(now time.Time) (next time.Time) {
	released := false
	for len(s.expiring) > 0 {
		first := s.expiring[0]
		if h := s.held[first.seq]; h != nil {
			if due := s.born.Add(first.due); now.Before(due) {
				next = due
				break
			}
			s.release(first.seq)
			s.outlived(h.key, first.seq)
			released = true
		}
		s.expiring = s.expiring[1:]
	}
	if released {
		s.raise()
		s.happened() // a writer that is blocked has room
	}
	return next
}

// wrote follows what the application did to an instance.
func (s *Sender) wrote(key string, what wire.Status, now time.Time) {
	if what == wire.StatusData {
		s.deadlines.Met(key, now)
	} else {
		s.deadlines.End(key)
	}
}

// deadlinesMissed tells of instances that were not written in time.
func (s *Sender) deadlinesMissed(now time.Time) (next time.Time) {
	s.deadlines.Missed(now, func(encoded string) {
		key, _ := level.Decode(encoded) // it was encoded by Write
		s.events.OfferedDeadlineMissed(key, s.deadlines.Total)
	})
	return s.deadlines.Next()
}

// stamp makes the source times of a writer grow, which a wall clock that is set
// back does not, so that its own samples never come late.
func (s *Sender) stamp(e *wire.Envelope) {
	if s.qos.BySourceTime {
		e.Nanos = max(e.Nanos, s.stamped+1)
		s.stamped = e.Nanos
	}
}
