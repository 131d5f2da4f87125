package reliable

import (
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// A participant whose death the broker tells of may only have lost its connection, and
// its last samples may be on their way: they take another connection than its death. So
// a reliable reader goes on to take what comes from its writers for a while. What has
// not come by then is lost, and the reader says so.

// returnFor is how long a reader waits for a writer whose participant died, and for its
// samples.
const returnFor = 30 * time.Second

// accepted reports whether samples of a writer are taken.
func (w *remoteWriter) accepted() bool { return w.matched || !w.Died.IsZero() }

// awaitReturn begins to wait for a writer that died.
func (r *Receiver) awaitReturn(w *remoteWriter, died bool, now time.Time) {
	if died && w.reliable {
		w.Died = now
		r.schedule(now.Add(r.patience))
	}
}

// returnsOver gives up the writers that have not come back in time.
func (r *Receiver) returnsOver(now time.Time) (next time.Time) {
	for _, w := range r.writers {
		if w.Died.IsZero() {
			continue
		}
		if due := w.Died.Add(r.patience); now.Before(due) {
			next = timing.Earliest(next, due)
			continue
		}
		if !r.writeOff(w, now) { // the cache has no room
			next = timing.Earliest(next, now.Add(drainFor))
		}
	}
	return next
}

// writeOff delivers what came of a dead writer, and tells what did not as lost. It reports
// false if it must be called again, for want of room.
func (r *Receiver) writeOff(w *remoteWriter, now time.Time) bool {
	if !w.started && len(w.early) > 0 { // it had not said where it starts
		w.started, w.next = true, w.last
		for seq := range w.early {
			w.next = min(w.next, seq)
		}
		w.historic = w.next - 1
	}
	if r.orphans != nil {
		r.stopWaiting(now, func(o *Orphan) bool { return o.Writer.GUID == w.GUID })
		r.notLost(w)
	}
	if w.started && w.next <= w.last && !r.forgo(w, w.last, now) {
		return false
	}
	w.Died = time.Time{}
	return true
}

// lose ends the wait for a writer at once; nil is none. What there is no room for is
// lost, too.
func (r *Receiver) lose(w *remoteWriter) {
	if w == nil || w.Died.IsZero() || r.writeOff(w, time.Now()) {
		return
	}
	count := w.last - w.next + 1
	if r.narrow {
		count = 1
	}
	r.lost(w, count)
	w.Died = time.Time{}
}

// forgo delivers what came of a writer up to a sample, and tells what did not as lost.
// It reports false when there is no room.
func (r *Receiver) forgo(w *remoteWriter, to uint64, now time.Time) bool {
	r.skip(w, wire.Range{First: w.next, Last: to}, now)
	if w.next <= to {
		return false
	}
	if r.narrow && to > max(w.mine, w.historic) { // the last of its instance
		r.lost(w, 1)
		w.mine = to
	}
	return true
}
