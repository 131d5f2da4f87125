package qosmutex

import (
	"fmt"
	"time"

	"padme/qosmutex/protocol"
)

// LockOption configures one request.
type LockOption func(*request)

type request struct {
	priority int64
	fixed    bool
	deadline time.Time // zero: none
	hold     time.Duration
}

// WithPriority gives one request a priority of its own, which does not follow
// the participant's. Smaller is more important.
func WithPriority(priority int64) LockOption {
	return func(r *request) { r.priority, r.fixed = priority, true }
}

// WithDeadline says until when the request must be inside. Under the Deadline
// priority model, and by the algorithms named edf, it is either promised that or
// refused with ErrDeadlineUnattainable as soon as the participant that decides has
// heard of it; a promise needs WithHold from all, since a hold of unknown length cannot
// be planned around. Under other models and algorithms nothing is promised. In any case
// a request that still waits at its deadline ends with ErrDeadlineMissed.
func WithDeadline(deadline time.Time) LockOption {
	return func(r *request) { r.deadline = deadline }
}

// WithHold declares how long the application will stay inside at most. It is a
// statement, not a limit: who stays longer breaks promises made to others. Zero
// and less declare nothing.
func WithHold(d time.Duration) LockOption {
	return func(r *request) { r.hold = max(d, 0) }
}

// input is what the machine is asked.
func (r *request) input(now time.Time) (within, hold protocol.Duration) {
	if !r.deadline.IsZero() {
		within = protocol.Duration(r.deadline.Sub(now))
	}
	return within, protocol.Duration(r.hold)
}

// expiry fires at the deadline; nil, which never does, if there is none. stop must
// be called.
func (r *request) expiry() (fires <-chan time.Time, stop func()) {
	if r.deadline.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(r.deadline))
	return timer.C, func() { timer.Stop() }
}

func (t *Topic) unattainable(resource string) error {
	return fmt.Errorf("%w: %s cannot be promised in time: ask for a later deadline, or for a shorter hold", ErrDeadlineUnattainable, t.what(resource))
}

func (t *Topic) missed(resource string) error {
	return fmt.Errorf("%w while waiting for %s", ErrDeadlineMissed, t.what(resource))
}
