package reliable

import (
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// alive handles a writer's word that it was asserted a while ago.
func (r *Receiver) alive(from wire.GUID, m *wire.Repair) {
	r.mu.Lock()
	defer r.unlock()
	w := r.writers[writerLevels(from)]
	if w == nil || w.GUID != from || !w.matched || w.lease == 0 {
		return
	}
	now := time.Now()
	due := now.Add(w.lease - time.Duration(min(m.A, uint64(w.lease))))
	if !w.vouched || due.After(w.due) { // not lowered by what comes late or twice
		w.vouched, w.due = true, due
	}
	if now.Before(w.due) {
		r.revive(w, now)
	} else {
		r.schedule(now)
	}
}

// revive makes w alive if it was not.
func (r *Receiver) revive(w *remoteWriter, now time.Time) {
	if !w.alive {
		w.alive = true
		r.livelinessChanged(w)
	}
	if w.lease > 0 {
		if !now.Before(w.due) { // nobody has said until when
			w.due = now.Add(w.lease)
		}
		r.schedule(w.due)
	}
}

// beginLease begins the lease of a writer that matches.
func (r *Receiver) beginLease(w *remoteWriter, p *Peer, now time.Time) {
	w.lease = p.Lease
	r.cache.Strengthen(&w.Writer, p.Strength, p.Change)
	w.vouched, w.due = false, now.Add(w.lease)
	r.revive(w, now)
}

// notAlive makes a writer not alive: others own and keep its instances.
func (r *Receiver) notAlive(w *remoteWriter, now time.Time) {
	if w.alive {
		w.alive = false
		r.cache.Leave(&w.Writer, w.next-1, now)
		r.livelinessChanged(w)
	}
}

// leasesOver finds writers that were not asserted in time.
func (r *Receiver) leasesOver(now time.Time) (next time.Time) {
	for _, w := range r.writers {
		switch {
		case !w.alive || w.lease == 0:
		case now.Before(w.due):
			next = timing.Earliest(next, w.due)
		default:
			r.notAlive(w, now)
		}
	}
	return next
}

func (r *Receiver) livelinessChanged(w *remoteWriter) {
	alive, others := 0, 0
	for _, o := range r.writers {
		switch {
		case o.matched && o.alive:
			alive++
		case o.matched:
			others++
		}
	}
	r.events.LivelinessChanged(w.GUID, w.alive, alive, others)
}
