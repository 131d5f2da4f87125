package reliable

import (
	"maps"
	"slices"
	"time"

	"padme/pubsub/internal/wire"
)

const (
	// maxEarly bounds the samples of one writer held back until a gap before
	// them is filled. At half of it the writer is told to wait. After an outage
	// those of a whole history may be missing, and as many come meanwhile.
	maxEarly      = 1 << 15
	maxEarlyBytes = 16 << 20
	// minAsk is the least time between two requests that samples cause.
	minAsk = 50 * time.Millisecond
	// ackWindow is how many samples of a writer are acknowledged together without being
	// asked for: of a hundred readers an acknowledgement for each twenty samples.
	ackWindow = 2048
	// ackBytes is how many bytes of samples are, so that writers need not keep more.
	ackBytes = 4 << 20
	// ackPause is how long an acknowledgement that is asked for may be put off while
	// samples come, until what was asked for is there.
	ackPause = 400 * time.Millisecond
)

// catchUp delivers what was held back behind a gap that is filled.
func (r *Receiver) catchUp(w *remoteWriter, now time.Time) {
	for s := r.following(w); s != nil && r.deliver(w, *s, now); s = r.following(w) {
		w.forgetEarly(s.Seq)
		w.next = s.Seq + 1
	}
	if w.crowded && !w.crowds() {
		r.ask(w, false)
	}
	if w.lease > 0 && !w.alive { // its lease has ended since it wrote that
		r.cache.Leave(&w.Writer, w.next-1, now)
	}
	if w.catching && w.started && w.next > w.historic {
		r.caughtUp(w, now)
	}
	r.drained(w, now)
}

// caughtUp follows that the history of a best-effort writer is there.
func (r *Receiver) caughtUp(w *remoteWriter, now time.Time) {
	r.ask(w, false)
	w.catching, w.reliable = false, false
	for _, seq := range slices.Sorted(maps.Keys(w.early)) {
		w.next = seq + 1
		r.deliver(w, *w.early[seq], now)
	}
	clear(w.early)
	w.earlyBytes = 0
}

// flows reports whether what a heartbeat tells of is on its way, and so much that a window
// of it is acknowledged soon, or all of it when it is there.
func (w *remoteWriter) flows(now time.Time) bool {
	return !w.crowded && w.stuck == 0 && w.next > w.lacked && w.told > w.acked+ackWindow && now.Sub(w.asked) < ackPause
}

// skip moves on over samples that will never come; those of them which did come
// early are delivered.
func (r *Receiver) skip(w *remoteWriter, g wire.Range, now time.Time) {
	var lost uint64
	for w.next <= g.Last {
		if s := w.early[w.next]; s != nil {
			if !r.deliver(w, *s, now) {
				break
			}
			w.forgetEarly(w.next)
			w.next++
			continue
		}
		to := g.Last + 1
		for seq := range w.early {
			if seq > w.next && seq < to {
				to = seq
			}
		}
		if to-1 > w.historic {
			lost += to - 1 - max(w.next-1, w.historic)
		}
		w.next = to
	}
	if lost > 0 && !r.narrow { // to a narrow reader most of them mean nothing; see missed
		r.lost(w, lost)
	}
}

// lost tells of samples that will never come; best-effort ones are not told of.
func (r *Receiver) lost(w *remoteWriter, n uint64) {
	if !w.catching {
		r.events.SampleLost(w.GUID, n)
	}
}

// ask acknowledges what was received and requests what is missing. If it comes
// before what the last heartbeat told of, it is said again when that is there.
func (r *Receiver) ask(w *remoteWriter, hello bool) {
	if !w.matched { // nobody is there
		return
	}
	m := &wire.Repair{Op: wire.OpAck, Key: w.match}
	if hello || !w.started { // it cannot say what it lacks
		m.B = 1
	}
	if w.started && !w.reliable {
		m.A = w.historic
	}
	if w.started && w.reliable {
		m.A, w.acked, w.fresh = w.next-1, w.next-1, 0
		if w.crowded = w.crowds(); w.crowded {
			m.C = 1
		}
		if !r.stalled && w.stuck == 0 {
			m.Ranges = w.missing(w.lacked, wire.MaxRanges)
		}
		if w.owed < w.next {
			w.owed = 0
			if w.told >= w.next {
				w.owed = w.told
			}
		}
	}
	if !hello || !w.started || len(m.Ranges) > 0 { // a mere hello has asked for nothing
		w.asked = time.Now()
	}
	m.From, m.To, m.Incarnation = r.name, w.GUID.Endpoint, w.GUID.Incarnation
	r.out.Post(w.GUID.Participant, m.Encode(r.incarnation))
}

// crowds reports whether w should wait, lest what it sends has to be dropped.
func (w *remoteWriter) crowds() bool {
	return len(w.early) > maxEarly/2 || w.earlyBytes > maxEarlyBytes/2
}

func (w *remoteWriter) keepEarly(s *sample) {
	if _, there := w.early[s.Seq]; !there && len(w.early) < maxEarly && w.earlyBytes+len(s.Body) <= maxEarlyBytes {
		w.early[s.Seq] = s
		w.earlyBytes += len(s.Body)
	}
}

func (w *remoteWriter) forgetEarly(seq uint64) {
	w.earlyBytes -= len(w.early[seq].Body)
	delete(w.early, seq)
}

// missing lists what has not come up to a sample, in so many ranges at most.
func (w *remoteWriter) missing(to uint64, most int) []wire.Range {
	if w.next > to {
		return nil
	}
	early := make([]uint64, 0, len(w.early))
	for seq := range w.early {
		early = append(early, seq)
	}
	slices.Sort(early)
	var out []wire.Range
	from := w.next
	for _, seq := range append(early, to+1) {
		if seq > from {
			out = append(out, wire.Range{First: from, Last: seq - 1})
		}
		if from = max(from, seq+1); len(out) == most {
			break
		}
	}
	return out
}

// refill takes in what was turned away, and asks for the rest of it, once there is room.
func (r *Receiver) refill() {
	r.giveRest()
	if r.stalled && !r.cache.HalfEmpty() || !r.cache.Freed() && !r.stalled {
		return
	}
	r.stalled = false
	now := time.Now()
	for _, w := range r.writers {
		if w.accepted() && w.reliable && w.started {
			w.stuck = 0 // or it would be asked for only if it was held back
			r.catchUp(w, now)
			r.ask(w, false)
		}
	}
}
