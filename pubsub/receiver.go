package pubsub

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errInstances = errors.New("pubsub: MaxInstances are known already")
	errSamples   = errors.New("pubsub: MaxSamples wait already: take them faster or raise the limit")
)

const (
	// maxEarly bounds the samples of one writer held back until a gap before
	// them is filled.
	maxEarly      = 1024
	maxEarlyBytes = 8 << 20
	// minAsk is the least time between two requests that samples cause.
	minAsk = 50 * time.Millisecond
	// minQuiet is how long no sample must have come from a writer until those that a
	// heartbeat tells of, and that did not come, are taken for lost. Heartbeats have a
	// connection of their own and overtake samples, by more on a machine that is busy.
	minQuiet = 200 * time.Millisecond
	// maxWriters bounds the writers a reader remembers.
	maxWriters = 8192
	// maxSeq keeps sums of numbers that strangers send from overflowing.
	maxSeq = 1 << 62
)

// receiver is a reader's side of the protocol: which samples are new, in order,
// and from a matched writer. It knows neither sample types nor MQTT. Its methods
// run on goroutines that read from the network and never block.
type receiver struct {
	name        string // of the endpoint
	incarnation uint64 // of the participant
	schema      uint64
	qos         QoS
	events      *events
	post        func(to string, letter []byte)
	drop        func(reason)
	keep        keeper        // content filter, nil for none
	orphans     *orphans      // of a transient reader
	narrow      bool          // it wants one instance
	quiet       time.Duration // minQuiet

	mu      sync.Mutex
	writers map[string]*remoteWriter // by the last two levels of their topics
	cache   instances
	change  chan struct{} // closed when matches change; nil if nobody waits
	stalled bool          // a sample was turned away because the cache is full

	wake  chan struct{} // of the goroutine that calls tick
	due   time.Time     // when tick has something to do; zero for never
	timed atomic.Bool   // due is not zero
}

// remoteWriter is a writer that matches or did; it is remembered because it may
// only have lost its connection.
type remoteWriter struct {
	guid       GUID
	schema     uint64
	reliable   bool // both sides are
	matched    bool
	started    bool                 // next is known
	next       uint64               // the first sample not yet received
	last       uint64               // the last one known to exist
	historic   uint64               // the last one written before we came
	lacked     uint64               // up to here what is not there is lost, and asked for
	heard      time.Time            // when a sample came that was not asked for
	told       uint64               // the last one that a heartbeat told of
	owed       uint64               // to be acknowledged as soon as it is there; 0 for none
	early      map[uint64]*inSample // came before the one expected
	earlyBytes int
	asked      time.Time

	strength int           // of ownership
	alive    bool          // matched, and asserted within its lease
	lease    time.Duration // of liveliness; 0 is infinite
	due      time.Time     // when the lease ends
	vouched  bool          // due is the writer's word, not the benefit of the doubt
	mine     uint64        // of a narrow reader: the last one received
}

func newReceiver(name string, incarnation, schema uint64, q QoS, ev *events) *receiver {
	r := &receiver{
		name: name, incarnation: incarnation, schema: schema, qos: q, events: ev, quiet: minQuiet,
		writers: map[string]*remoteWriter{},
		cache: instances{
			qos: q, byKey: map[string]*instance{}, wake: make(chan struct{}, 1),
			deadlines: deadlines{period: q.Deadline}, separation: newSeparation(&q),
		},
	}
	if q.Durability == Transient {
		r.orphans = &orphans{byID: map[string]*orphan{}}
	}
	return r
}

// writerLevels are the last two levels of a writer's data topics.
func writerLevels(g GUID) string {
	p, err := EncodeLevel(g.Participant)
	if err != nil {
		return ""
	}
	return p + "/" + g.Endpoint
}

func (r *receiver) matched(e endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	levels := writerLevels(e.guid)
	w := r.writers[levels]
	if w == nil || w.guid != e.guid {
		if len(r.writers) >= maxWriters && !r.forget() {
			r.events.add(SampleRejected{e.guid, errors.New("pubsub: too many writers")})
			return
		}
		w = &remoteWriter{guid: e.guid, early: map[uint64]*inSample{}, reliable: r.qos.Reliability == Reliable && e.QoS.Reliability == Reliable}
		w.started = !w.reliable
		r.writers[levels] = w
	}
	w.matched, w.schema = true, e.Schema
	r.changed()
	r.events.add(Matched{e.guid})
	r.greet(w, &e.QoS.timeOffer, time.Now())
	r.ask(w, true)
}

// forget makes room for a writer.
func (r *receiver) forget() bool {
	for levels, w := range r.writers {
		if !w.matched {
			delete(r.writers, levels)
			return true
		}
	}
	return false
}

func (r *receiver) unmatched(g GUID, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[writerLevels(g)]
	if w == nil || w.guid != g || !w.matched {
		return
	}
	w.matched = false
	r.changed()
	r.orphaned(w)
	if w.alive {
		r.bury(w, time.Now())
	} else { // it was counted as such
		r.livelinessChanged(w)
	}
	r.events.add(Unmatched{g})
}

// sample handles a message from a data topic.
func (r *receiver) sample(key, levels string, payload []byte) { r.arrived(key, levels, payload, true) }

// repaired handles a sample that was asked for.
func (r *receiver) repaired(key, levels string, payload []byte) {
	r.arrived(key, levels, payload, false)
}

// arrived takes a message with one or more samples apart. What comes before a broken
// one counts.
func (r *receiver) arrived(key, levels string, payload []byte, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for several := false; len(payload) > 0; several = true {
		var e envelope
		rest, err := nextEnvelope(payload, &e)
		if err != nil {
			r.drop(malformed(err))
			return
		}
		several = several || len(rest) > 0
		if several { // one that stays does not keep the others' memory
			e.body = bytes.Clone(e.body)
		}
		at := key
		if key == manyKeys {
			if at, err = DecodeLevel(string(e.options.key)); err != nil {
				r.drop(dropTopic)
				return
			}
		}
		r.judge(at, levels, &e, first, now)
		payload = rest
	}
}

// judge decides whether a sample is to be taken.
func (r *receiver) judge(key, levels string, e *envelope, first bool, now time.Time) {
	w := r.writers[levels]
	switch {
	case e.kind != kindSample || e.seq == 0 || e.seq > maxSeq || e.schema != r.schema && (w == nil || e.schema != w.schema):
		r.drop(dropKind)
	case w == nil || !w.matched || e.epoch != w.guid.Incarnation:
		r.drop(dropUnmatched)
	default:
		if first {
			w.heard = now
		}
		r.take(w, key, e, now)
	}
}

// take handles a sample of a matched writer.
func (r *receiver) take(w *remoteWriter, key string, e *envelope, now time.Time) {
	s := inSample{
		key: key, writer: w, seq: e.seq, nanos: e.nanos, status: e.options.status, body: e.body,
		previous: e.options.previous, mortal: lifespanOf(e, now),
	}
	if !w.alive { // its samples have come to life before its word that it has
		r.revive(w, now)
	}
	if !w.reliable {
		if s.seq < w.next {
			r.drop(dropDuplicate)
			return
		}
		w.next = s.seq + 1
		r.deliver(w, s, now)
		return
	}
	w.last, w.lacked = max(w.last, s.seq), max(w.lacked, s.seq)
	switch {
	case w.started && s.seq < w.next:
		r.drop(dropDuplicate)
	case w.started && r.follows(w, &s):
		if r.deliver(w, s, now) {
			w.next = s.seq + 1
			r.catchUp(w, now)
			if w.owed > 0 && w.next > w.owed {
				r.ask(w, false)
			}
		}
	default:
		if _, there := w.early[s.seq]; !there && len(w.early) < maxEarly && w.earlyBytes+len(s.body) <= maxEarlyBytes {
			w.early[s.seq] = &s
			w.earlyBytes += len(s.body)
		}
		if now.Sub(w.asked) >= minAsk {
			r.ask(w, false)
		}
	}
}

// deliver reports false when the sample must come again.
func (r *receiver) deliver(w *remoteWriter, s inSample, now time.Time) bool {
	if !r.consider(w, s, now) {
		return false
	}
	if r.narrow && w.reliable && !s.orphan {
		r.missed(w, &s)
	}
	return true
}

// consider takes a sample into the cache if it is wanted. It reports false when it
// must come again.
func (r *receiver) consider(w *remoteWriter, s inSample, now time.Time) bool {
	if s.mortal.over(now) {
		return true
	}
	if r.orphans != nil && r.repeated(w, &s) {
		r.drop(dropDuplicate)
		return true
	}
	if r.keep != nil && !r.wanted(&s) {
		return true
	}
	ok, err := r.cache.accept(s, now)
	if !ok && w.reliable {
		r.stalled = true
		return false
	}
	if r.orphans != nil {
		r.outdated(w, &s)
	}
	switch {
	case errors.Is(err, errLate):
		r.drop(dropLate)
	case err != nil:
		r.events.add(SampleRejected{w.guid, err})
	}
	r.arm(r.cache.due())
	return true
}

// catchUp delivers what was held back behind a gap that is filled.
func (r *receiver) catchUp(w *remoteWriter, now time.Time) {
	for s := r.following(w); s != nil && r.deliver(w, *s, now); s = r.following(w) {
		w.forgetEarly(s.seq)
		w.next = s.seq + 1
	}
	if w.lease > 0 && !w.alive { // its lease has ended since it wrote that
		r.cache.writerGone(w, now)
	}
}

// heartbeat handles a writer's word on what it holds.
func (r *receiver) heartbeat(from GUID, m *repairMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[writerLevels(from)]
	first, last, base := m.a, m.b, m.c
	if w == nil || w.guid != from || !w.matched || first == 0 || first > last+1 || base > last || last > maxSeq {
		return
	}
	if w.reliable {
		now := time.Now()
		if !w.started {
			w.started, w.next, w.historic = true, base+1, base
			if r.qos.Durability >= TransientLocal { // it starts before all that there was
				w.historic = last
			}
			for seq := range w.early {
				if seq < w.next {
					w.forgetEarly(seq)
				}
			}
		}
		w.last, w.told = max(w.last, last), last
		if now.Sub(w.heard) >= r.quiet {
			w.lacked = max(w.lacked, last)
		}
		// What it does not hold any more may be on its way.
		r.skip(w, seqRange{w.next, min(first-1, w.lacked)}, now)
		r.catchUp(w, now)
	}
	r.ask(w, false)
}

// gap handles a writer's word on what it does not hold.
func (r *receiver) gap(from GUID, m *repairMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[writerLevels(from)]
	if w == nil || w.guid != from || !w.matched || !w.started || !w.reliable {
		return
	}
	now := time.Now()
	slices.SortFunc(m.ranges, func(a, b seqRange) int { return cmp.Compare(a.first, b.first) })
	for _, g := range m.ranges {
		if g.first <= w.next {
			r.skip(w, seqRange{w.next, min(g.last, w.last)}, now)
			r.catchUp(w, now)
		}
	}
}

// skip moves on over samples that will never come; those of them which did come
// early are delivered.
func (r *receiver) skip(w *remoteWriter, g seqRange, now time.Time) {
	var lost uint64
	for w.next <= g.last {
		if s := w.early[w.next]; s != nil {
			if !r.deliver(w, *s, now) {
				break
			}
			w.forgetEarly(w.next)
			w.next++
			continue
		}
		to := g.last + 1
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
		r.events.add(SampleLost{w.guid, lost})
	}
}

// ask acknowledges what was received and requests what is missing. If it comes
// before what the last heartbeat told of, it is said again when that is there.
func (r *receiver) ask(w *remoteWriter, hello bool) {
	m := &repairMessage{op: opAck}
	if hello {
		m.b = 1
	}
	if w.started && w.reliable {
		m.a = w.next - 1
		if !r.stalled {
			m.ranges = w.missing()
		}
		if w.owed < w.next {
			w.owed = 0
			if w.told >= w.next {
				w.owed = w.told
			}
		}
	}
	w.asked = time.Now()
	m.from, m.to, m.incarnation = r.name, w.guid.Endpoint, w.guid.Incarnation
	r.post(w.guid.Participant, m.encode(r.incarnation))
}

func (w *remoteWriter) forgetEarly(seq uint64) {
	w.earlyBytes -= len(w.early[seq].body)
	delete(w.early, seq)
}

// missing lists what is lost.
func (w *remoteWriter) missing() []seqRange {
	if w.next > w.lacked {
		return nil
	}
	early := make([]uint64, 0, len(w.early))
	for seq := range w.early {
		early = append(early, seq)
	}
	slices.Sort(early)
	var out []seqRange
	from := w.next
	for _, seq := range append(early, w.lacked+1) {
		if seq > from {
			out = append(out, seqRange{from, seq - 1})
		}
		if from = max(from, seq+1); len(out) == maxRanges {
			break
		}
	}
	return out
}

// takeNext gives the oldest sample to the application, nil if there is none.
func (r *receiver) takeNext() *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache.mortals) > 0 {
		r.cache.expire(time.Now())
	}
	h := r.cache.take()
	r.giveRest()
	if r.stalled {
		r.resume(time.Now())
	}
	return h
}

// resume asks for what was turned away once there is room.
func (r *receiver) resume(now time.Time) {
	if !r.stalled || r.cache.live > r.qos.MaxSamples/2 {
		return
	}
	r.stalled = false
	for _, w := range r.writers {
		if w.matched && w.reliable && w.started {
			r.catchUp(w, now)
			r.ask(w, false)
		}
	}
}

// waiting returns up to n samples, which stay.
func (r *receiver) waiting(n int) []*held {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(time.Now())
	var out []*held
	for _, h := range r.cache.queue {
		if len(out) == n {
			break
		}
		if !h.gone {
			out = append(out, h)
		}
	}
	return out
}

// matches counts matched writers; the channel is closed when that changes.
func (r *receiver) matches() (n int, change <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.writers {
		if w.matched {
			n++
		}
	}
	if r.change == nil {
		r.change = make(chan struct{})
	}
	return n, r.change
}

func (r *receiver) changed() {
	if r.change != nil {
		close(r.change)
		r.change = nil
	}
}
