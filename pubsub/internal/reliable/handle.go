package reliable

import (
	"cmp"
	"slices"
	"time"

	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wire"
)

// Handle handles what a reader says. It reports false if that is not for a writer.
func (s *Sender) Handle(from wire.GUID, m *wire.Repair) bool {
	if m.Op != wire.OpAck {
		return false
	}
	s.acknowledged(from, m)
	s.out.Wake()
	return true
}

// Handle handles what a writer says. It reports false if that is not for a reader.
func (r *Receiver) Handle(from wire.GUID, m *wire.Repair) bool {
	switch m.Op {
	case wire.OpHeartbeat, wire.OpEnd:
		r.heartbeat(from, m)
	case wire.OpGap:
		r.gap(from, m)
	case wire.OpAlive:
		r.alive(from, m)
	case wire.OpSample:
		key, err := level.Decode(m.Key)
		if err != nil {
			return false
		}
		r.arrived(key, writerLevels(from), m.Sample, false)
	default:
		return false
	}
	return true
}

// heartbeat handles a writer's word on what it holds.
func (r *Receiver) heartbeat(from wire.GUID, m *wire.Repair) {
	r.mu.Lock()
	defer r.unlock()
	w := r.writers[writerLevels(from)]
	first, last, base := m.A, m.B, m.C
	if w == nil || w.GUID != from || !w.matched || first == 0 || first > last+1 || base > last || last > maxSeq {
		return
	}
	if !w.concerned(m.Key) { // of a match that is over
		return
	}
	if m.Op == wire.OpEnd && r.orphans != nil && !w.started && len(w.early) == 0 {
		return // it was closed before it has met us, and sends nothing more: the broker has its last values
	}
	if m.Op == wire.OpEnd && !w.ends(last, base) {
		return
	}
	begins, flows := !w.started, false
	if w.reliable {
		now := time.Now()
		if !w.started {
			w.started, w.next, w.historic, w.acked = true, base+1, base, base
			if r.qos.Historic { // it starts before all that there was
				w.historic = last
			}
			for seq := range w.early {
				if seq < w.next {
					w.forgetEarly(seq)
				}
			}
			if m.Op == wire.OpEnd && r.orphans != nil {
				r.forgoHistory(w, now)
			}
		}
		w.last, w.told = max(w.last, last), last
		if now.Sub(w.heard) >= r.quiet {
			w.lacked = max(w.lacked, last)
		}
		w.speaks(now, r.quiet)
		if m.Op == wire.OpEnd && first > last { // it holds nothing, so nothing of its history comes
			r.skip(w, wire.Range{First: w.next, Last: w.historic}, now)
		}
		r.catchUp(w, now) // what it does not hold any more may be on its way
		flows = !begins && w.flows(now)
	}
	switch {
	case m.Op == wire.OpEnd: // nobody is there to answer
	case flows:
		w.owed = last
	default:
		r.ask(w, false)
	}
}

// speaks follows a word of a writer. Between two of them only so much time counts as silence: a
// process that was suspended finds words and samples of many seconds at once.
func (w *remoteWriter) speaks(now time.Time, quiet time.Duration) {
	if w.silent.IsZero() {
		w.silent, w.spoke, w.silence = now, now, 0
	}
	w.silence += min(now.Sub(w.spoke), quiet/2)
	w.spoke = now
}

// isQuiet reports whether no sample of a writer is on its way any more. The samples of all
// writers come in one line: as long as any come it may only be not its turn, but that has an end.
func (r *Receiver) isQuiet(w *remoteWriter, now time.Time) bool {
	others := now.Sub(r.heard) < r.quiet || r.screened > 0
	return !w.silent.IsZero() && w.silence >= r.quiet && (!others || now.Sub(w.silent) >= drainFor)
}

// gap handles a writer's word on what it does not hold, of which we have asked for some. What
// no sample has passed may be on its way.
func (r *Receiver) gap(from wire.GUID, m *wire.Repair) {
	r.mu.Lock()
	defer r.unlock()
	w := r.writers[writerLevels(from)]
	if w == nil || w.GUID != from || !w.matched || !w.started || !w.reliable {
		return
	}
	now := time.Now()
	lost := max(w.passed, w.historic) // what there was before us is not on its way
	if r.isQuiet(w, now) {
		lost = w.last
	}
	slices.SortFunc(m.Ranges, func(a, b wire.Range) int { return cmp.Compare(a.First, b.First) })
	for _, g := range m.Ranges {
		if g.First <= w.next {
			r.skip(w, wire.Range{First: w.next, Last: min(g.Last, lost)}, now)
			r.catchUp(w, now)
		}
	}
	if w.owed > 0 && w.next > w.owed {
		r.ask(w, false)
	}
}
