package reliable

import (
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// A writer whose death is announced may live: it has lost its connection for a moment, as all
// do when a broker is restarted. Its last value, which the broker has retained, would overtake
// the samples before it that the reader lacks, and that the writer will send again. So that
// value waits for a moment. If the writer is back by then, its history brings the value in its
// turn; otherwise the value is given as one of a writer that the reader does not know. The
// writer's samples go on from where they were: if it comes back still later, its older ones are
// told as lost.

const (
	// comeback is how long a value waits for its writer. After an outage of a few seconds
	// everybody is back a second later.
	comeback = 3 * time.Second
	// together is how far apart ends of waits may be for the values to be given in the order
	// of their source times.
	together = 300 * time.Millisecond
)

// waits reports whether a value is to wait for its writer, because samples before it are
// missing. What expires soon is not: what is missing is older.
func (r *Receiver) waits(w *remoteWriter, o *Orphan, now time.Time) bool {
	if w.Died.IsZero() || !w.started || r.follows(w, &o.sample) || o.Expiry.Over(now.Add(comeback)) {
		return false
	}
	w.last = max(w.last, o.Seq) // if it is not given in the end, it is told as lost with what is before it
	if o.until.IsZero() {
		o.until = now.Add(comeback)
		r.orphans.waiting = append(r.orphans.waiting, orphanID(o.Key, o.levels))
		r.schedule(o.until)
	}
	return o.until.After(now.Add(together))
}

// waitsOver gives what has waited long enough, and reports when it is to be called again. While
// we are offline no writer is heard to come back.
func (r *Receiver) waitsOver(now time.Time) (next time.Time) {
	if r.orphans == nil || len(r.orphans.waiting) == 0 || !r.inquiry.IsZero() {
		return time.Time{}
	}
	r.stopWaiting(now, func(o *Orphan) bool { return !o.until.After(now.Add(together)) })
	for _, id := range r.orphans.waiting {
		if o := r.orphans.byID[id]; o != nil {
			next = timing.Earliest(next, o.until)
		}
	}
	return next
}

// stopWaiting gives those values that wait and need not any more.
func (r *Receiver) stopWaiting(now time.Time, over func(*Orphan) bool) {
	r.giveInOrder(r.orphans.wait(func(o *Orphan) bool {
		if !over(o) {
			return false
		}
		o.until = now
		return true
	}), now)
}

// wait takes values out of those that wait.
func (o *orphans) wait(over func(*Orphan) bool) (out []*Orphan) {
	rest := o.waiting[:0]
	for _, id := range o.waiting {
		switch it := o.byID[id]; {
		case it == nil || it.done || it.until.IsZero():
		case over(it):
			out = append(out, it)
		default:
			rest = append(rest, id)
		}
	}
	o.waiting = rest
	return out
}

// cameBack ends the wait for a writer that is back. It sends all in order. Who is back with
// another incarnation does not.
func (r *Receiver) cameBack(g wire.GUID) {
	if r.orphans == nil || len(r.orphans.waiting) == 0 {
		return
	}
	for _, o := range r.orphans.wait(func(o *Orphan) bool { return o.Writer.GUID == g }) {
		o.until = time.Time{}
	}
	r.stopWaiting(time.Now(), func(o *Orphan) bool {
		return o.Writer.GUID.Participant == g.Participant && o.Writer.GUID.Incarnation != g.Incarnation
	})
}

// waitAgain has the waits begin again, as we are online.
func (r *Receiver) waitAgain(now time.Time) {
	if r.orphans == nil {
		return
	}
	r.orphans.wait(func(o *Orphan) bool {
		if !o.Expiry.Over(now.Add(comeback)) {
			o.until = now.Add(comeback)
		}
		r.schedule(o.until)
		return false
	})
}

// notLost counts the values of a dead writer that were given as received, and what it wrote
// before them as known to exist.
func (r *Receiver) notLost(w *remoteWriter) {
	for _, o := range r.orphans.byID {
		if !w.started || o.Writer.GUID != w.GUID || o.given < w.next {
			continue
		}
		w.last = max(w.last, o.given)
		s := &sample{} // of which nothing is to be done
		s.Key, s.Writer, s.Seq, s.Expiry = o.Key, &w.Writer, o.given, &cache.Expiry{}
		if o.given == o.Seq {
			s.previous = o.previous
		}
		if w.early[s.Seq] == nil {
			w.early[s.Seq] = s
		}
	}
}
