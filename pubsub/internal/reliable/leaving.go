package reliable

import (
	"slices"
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// A writer's withdrawal and its samples take different connections, so the one may
// overtake the others. Therefore a writer that is closed waits for its readers, and
// then tells each which sample is the last; a reader keeps the writer until it has
// that one, or none has come for a while.

const (
	// drainFor is how long a reader waits for the next of a closed writer's samples.
	drainFor = 5 * time.Second
	// answerFor is how long it waits to hear which is the last.
	answerFor = time.Second
)

// ends notes that w writes nothing after a sample. It reports false if that is known:
// the writer's own word counts, which says that samples are on their way.
func (w *remoteWriter) ends(last, base uint64) bool {
	if w.ended {
		return false
	}
	w.ended, w.end = true, last
	if !w.reliable {
		w.next = max(w.next, base+1)
	}
	return true
}

// stays reports whether a writer that was closed is kept for a while: for samples on
// their way, or, if it was closed while we were away, for the answer which was its last.
func (r *Receiver) stays(w *remoteWriter, died bool, now time.Time) bool {
	switch {
	case w.ended:
		w.leaving, w.news = w.next <= w.end, now
	case !died && w.reliable && w.started:
		w.leaving, w.again, w.news, w.end = true, false, now.Add(answerFor-drainFor), w.last
		r.ask(w, false)
	}
	if w.leaving {
		r.schedule(w.news.Add(drainFor))
	}
	return w.leaving
}

// drained ends a writer that was closed once everything is there.
func (r *Receiver) drained(w *remoteWriter, now time.Time) {
	if w.leaving && w.next > w.end {
		r.depart(w, now)
	}
}

// drain ends writers of which nothing has come for a while since they were closed.
func (r *Receiver) drain(now time.Time) (next time.Time) {
	for _, w := range r.writers {
		if !w.leaving {
			continue
		}
		if due := w.news.Add(drainFor); now.Before(due) {
			next = timing.Earliest(next, due)
			continue
		}
		if !w.ended && !w.again { // we may have been offline when we asked
			w.again, w.news = true, now.Add(answerFor-drainFor)
			r.ask(w, false)
			next = timing.Earliest(next, now.Add(answerFor))
			continue
		}
		if r.giveUp(w, now); w.leaving { // the cache has no room
			w.news = now
			next = timing.Earliest(next, now.Add(drainFor))
		}
	}
	return next
}

// giveUp has a closed writer's samples that have not come told as lost.
func (r *Receiver) giveUp(w *remoteWriter, now time.Time) {
	if r.orphans != nil {
		w.lack(w.end)
	}
	if w.reliable {
		r.forgo(w, w.end, now)
	} else {
		w.next = w.end + 1
	}
	r.drained(w, now)
}

// forgoHistory moves on to what has come of a writer that was closed before it could be asked
// for what it had written until then: that is not sent any more.
func (r *Receiver) forgoHistory(w *remoteWriter, now time.Time) {
	first := w.end + 1
	for seq := range w.early {
		first = min(first, seq)
	}
	w.lack(first - 1)
	r.skip(w, wire.Range{First: w.next, Last: first - 1}, now)
}

// lack notes what has not come up to a sample, and is given up: the broker may have it.
func (w *remoteWriter) lack(to uint64) {
	w.lacks = slices.DeleteFunc(w.lacks, func(g wire.Range) bool { return g.First >= w.next })
	w.lacks = append(w.lacks, w.missing(to, len(w.early)+1)...)
}

// has reports whether a sample has come.
func (w *remoteWriter) has(seq uint64) bool {
	return w.started && seq < w.next && !slices.ContainsFunc(w.lacks, func(g wire.Range) bool { return g.First <= seq && seq <= g.Last })
}

// Parted ends a match: at once if that was ours to do, else when what is on its way has
// come.
func (r *Receiver) Parted(g wire.GUID, ours bool) {
	r.mu.Lock()
	defer r.unlock()
	w := r.writers[writerLevels(g)]
	if w == nil || w.GUID != g || !w.accepted() || w.leaving {
		return
	}
	now := time.Now()
	w.parted = true
	if !w.Died.IsZero() { // it is back
		w.matched, w.unmatched, w.Died = true, true, time.Time{}
		r.cameBack(g)
	}
	if ours || !r.stays(w, false, now) {
		r.depart(w, now)
	}
}
