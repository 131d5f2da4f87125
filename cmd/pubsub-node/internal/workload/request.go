package workload

import (
	"slices"

	"padme/qosmutex"
)

func (w *Workload) requested(who asking, of string, number uint64, e *qosmutex.Event) error {
	a := w.askers[who]
	if a == nil && len(w.askers) >= MaxAskers {
		return ErrTooMany
	}
	m := w.members[of]
	if m == nil {
		m = &member{last: number - 1}
		w.members[of] = m
	}
	if !w.follows(m, number) {
		return nil
	}
	if a == nil {
		a = &asker{asking: who, of: m, lives: m.lives, gaps: m.gaps, priorities: map[int64]int{}, asks: map[int]int{}}
		w.askers[who] = a
	}
	if a.lives != m.lives { // it died, and its requests with it
		w.forget(a, len(a.out))
	}
	a.followed = a.followed && a.gaps == m.gaps
	a.lives, a.gaps = m.lives, m.gaps
	a.note(e.Priority, w.resource(e.Resource))
	is := instant{e.At, w.now}
	if a.followed {
		w.take(&a.every, a.asked, is)
		if a.idle {
			w.take(&a.think, a.ended, is)
		}
	}
	a.seq++
	a.asked, a.followed, a.idle = is, true, false
	if len(a.out) >= maxOutOfOne {
		w.forget(a, 1)
	}
	if w.out < maxOut {
		a.out = append(a.out, request{number: number, seq: a.seq, arrived: w.now})
		w.out++
	}
	w.calm = w.calm.request(a, number, w.now)
	return nil
}

// follows notes the number of a request. It is false for one that comes again.
func (w *Workload) follows(m *member, number uint64) bool {
	switch step := number - m.last; {
	case number <= m.last && m.last-number < restarted:
		return false
	case number < m.last || step > restarted:
		m.lives++
	case step > 1:
		w.counts.missing += int(step - 1)
		m.gaps++
	}
	m.last = number
	return true
}

// end ends a.out[at].
func (w *Workload) end(a *asker, at int, e *qosmutex.Event) {
	r := a.out[at]
	a.out = slices.Delete(a.out, at, at+1)
	w.out--
	switch e.Event {
	case qosmutex.EventReleased:
		w.add(&a.cs, e.Held, w.now-r.arrived)
	case qosmutex.EventLost: // the application would have held for longer
		w.counts.lost++
	case qosmutex.EventWithdrawn:
		w.counts.withdrawn++
	case qosmutex.EventDenied:
		w.counts.denied++
	}
	a.ended = instant{e.At, w.now}
	a.idle = a.idle || r.seq == a.seq
	a.cover(r.seq)
	w.calm = calm{free: true, since: w.now}
}

// cover counts the requests that came while that of a sequence number was out. Only one
// that has ended counts: of one whose end is missing nobody knows until when it was out.
func (a *asker) cover(seq int) {
	if first := max(seq, a.to); a.seq > first {
		a.overlaps += a.seq - first
	}
	if a.to > 0 && seq < a.from {
		a.overlaps += a.from - seq
	}
	if a.seq > seq {
		if a.to == 0 || seq < a.from || seq > a.to {
			a.from = seq
		}
		a.to = a.seq
	}
}

// forget drops the n oldest requests, whose ends are missing.
func (w *Workload) forget(a *asker, n int) {
	a.out = slices.Delete(a.out, 0, n)
	w.out -= n
	w.counts.unended += n
}

// gap forgets what was going on before messages were missed.
func (w *Workload) gap() {
	for _, a := range w.askers {
		w.forget(a, len(a.out))
		a.followed = false
	}
	w.calm = calm{}
}
