package pubsub

import "time"

// The policies of time need no goroutine of their own: the one of the exchange
// that sends heartbeats calls tick of every writer and reader, and sleeps until
// the earliest of what they answer.

// earliest returns the first of two moments of which zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// tickTime does what the policies of time make due at a writer, and reports when
// the next of it will be.
func (s *sender) tickTime(now time.Time) (next time.Time) {
	next = earliest(s.deadlinesMissed(now), s.expire(now))
	return earliest(next, s.stayAlive(now))
}

// arm has tick called at due, if not before. Whatever becomes due is armed: a
// reader with nothing armed is not looked at.
func (r *receiver) arm(due time.Time) {
	if due.IsZero() || !r.due.IsZero() && !due.Before(r.due) {
		return
	}
	r.due = due
	r.timed.Store(true)
	signal(r.wake)
}

// tick does what the policies of time make due at a reader, and reports when it
// wants to be called again; zero for not until something happens.
func (r *receiver) tick(now time.Time) (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.due) {
		return r.due
	}
	// Leases first: what a dead writer does not write any more is no deadline
	// missed.
	r.due = earliest(r.leasesOver(now), r.expire(now))
	r.due = earliest(r.due, r.deadlinesMissed(now))
	r.timed.Store(!r.due.IsZero())
	return r.due
}

// due returns when the cache has to be looked at for the policies of time.
func (c *instances) due() (next time.Time) {
	if len(c.mortals) > 0 {
		next = c.mortals[0].mortal.due
	}
	return earliest(next, c.deadlines.next())
}
