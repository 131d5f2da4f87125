package reliable

import (
	"time"

	"padme/pubsub/internal/timing"
)

// The policies of time need no goroutine of their own: the one of the participant that has
// heartbeats sent calls Tick of every sender and receiver, and sleeps until the earliest of
// what they answer.

// schedule has Tick called when something is due, if not before. Whatever becomes due is scheduled:
// a reader with nothing scheduled is not looked at.
func (r *Receiver) schedule(at time.Time) {
	if at.IsZero() || !r.due.IsZero() && !at.Before(r.due) {
		return
	}
	r.due = at
	r.timed.Store(true)
	r.out.Wake()
}

// Timed reports whether Tick may have something to do. It takes no mutex.
func (r *Receiver) Timed() bool { return r.timed.Load() }

// Tick does what the policies of time make due, and reports when it wants to be called
// again; zero for not until something happens.
func (r *Receiver) Tick(now time.Time) (next time.Time) {
	r.mu.Lock()
	defer r.unlock()
	return r.doDue(now)
}

// beOnTime has states be those of this moment, not of the last Tick.
func (r *Receiver) beOnTime() {
	if !r.timed.Load() {
		return
	}
	if now := time.Now(); !now.Before(r.due) {
		r.doDue(now)
		r.change.Happened()
	}
}

func (r *Receiver) doDue(now time.Time) (next time.Time) {
	if now.Before(r.due) {
		return r.due
	}
	// Leases first: what a dead writer does not write any more is no deadline
	// missed.
	r.due = r.leasesOver(now)
	r.cache.Tick(now)
	r.refill()
	r.cache.MissedDeadlines(now, r.events.RequestedDeadlineMissed)
	r.due = timing.Earliest(timing.Earliest(r.due, r.drain(now)), timing.Earliest(r.waitsOver(now), r.returnsOver(now)))
	r.due = timing.Earliest(timing.Earliest(r.due, r.cache.Due()), r.inquireNow(now))
	r.timed.Store(!r.due.IsZero())
	return r.due
}
