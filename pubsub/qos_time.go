package pubsub

import (
	"fmt"
	"time"
)

const (
	// minDeadline keeps a period above what timers and a broker can tell apart.
	minDeadline = time.Millisecond
	// minLease keeps heartbeats, of which a lease has four, at least 5 ms apart.
	minLease = 20 * time.Millisecond
)

// validateTime checks the policies of time and of writers' standing.
func (q *QoS) validateTime() error {
	switch {
	case q.Deadline != 0 && q.Deadline < minDeadline:
		return fmt.Errorf("%w: Deadline %v, give at least %v, or 0 for none", ErrInvalid, q.Deadline, minDeadline)
	case q.Liveliness > ManualByTopic:
		return fmt.Errorf("%w: there is no liveliness %d", ErrInvalid, q.Liveliness)
	case q.LivelinessLease != 0 && q.LivelinessLease < minLease:
		return fmt.Errorf("%w: LivelinessLease %v, give at least %v, or 0 for an infinite one", ErrInvalid, q.LivelinessLease, minLease)
	case q.Lifespan < 0:
		return fmt.Errorf("%w: Lifespan %v is negative", ErrInvalid, q.Lifespan)
	case q.Strength != 0 && !q.Exclusive:
		return fmt.Errorf("%w: Strength %d has no meaning without Exclusive", ErrInvalid, q.Strength)
	}
	return nil
}

// checkReader refuses what only a writer can have: a reader would ignore it.
func (q *QoS) checkReader() error {
	switch {
	case q.Lifespan != 0:
		return fmt.Errorf("%w: Lifespan is a policy of writers, leave it at zero", ErrInvalid)
	case q.Strength != 0:
		return fmt.Errorf("%w: Strength is a policy of writers, leave it at zero", ErrInvalid)
	}
	return nil
}

// timeOffer is the part of an offer that tells of time and of writers' standing.
// What is absent has the default; durations are in nanoseconds, 0 is infinite.
type timeOffer struct {
	Deadline   time.Duration `json:"deadline,omitempty"`
	Liveliness Liveliness    `json:"liveliness,omitempty"`
	Lease      time.Duration `json:"lease,omitempty"`
	Exclusive  bool          `json:"exclusive,omitempty"`
	Strength   int           `json:"strength,omitempty"`
}

func (q *QoS) timeOffer() timeOffer {
	return timeOffer{q.Deadline, q.Liveliness, q.LivelinessLease, q.Exclusive, q.Strength}
}

// check refuses what no participant announces.
func (o *timeOffer) check() error {
	if o.Deadline < 0 || o.Lease < 0 {
		return fmt.Errorf("%w: a deadline of %v or a lease of %v", ErrInvalid, o.Deadline, o.Lease)
	}
	return nil
}

// incompatibleTime names the first policy of which less is offered than
// requested, "" if there is none.
func incompatibleTime(offered, requested timeOffer) string {
	switch {
	case longer(offered.Deadline, requested.Deadline):
		return "DEADLINE"
	case offered.Liveliness < requested.Liveliness || longer(offered.Lease, requested.Lease):
		return "LIVELINESS"
	case offered.Exclusive != requested.Exclusive:
		return "OWNERSHIP"
	}
	return ""
}

// longer compares durations of which 0 is infinite.
func longer(a, b time.Duration) bool {
	return b != 0 && (a == 0 || a > b)
}
