package reliable

import (
	"cmp"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/partition"
	"padme/pubsub/internal/wire"
)

const (
	// minQuiet is how long no sample must have come from a writer until those that a
	// heartbeat tells of, and that did not come, are taken for lost. Heartbeats have a
	// connection of their own and overtake samples, by more on a machine that is busy.
	minQuiet = 200 * time.Millisecond
	// maxWriters bounds the writers a reader remembers.
	maxWriters = 8192
	// maxSeq keeps sums of numbers that strangers send from overflowing.
	maxSeq = 1 << 62
)

// Inlet is what a receiver needs of its participant. No function blocks or calls the
// receiver, but for Filter, for which no mutex is held.
type Inlet struct {
	Post func(to string, message []byte) // to an inbox; may lose it
	Wake func()                          // has Tick called soon
	Drop func(drop.Reason)               // counts a message that is of no use
	// Recall has the broker deliver once more what it retains. Of a transient reader.
	Recall func()
	// Filter decides, if it is not nil, whether the sample encoded in body is wanted. Two
	// goroutines may call it at once. An error says why there is no answer: ErrNoAnswer,
	// or that body cannot be decoded.
	Filter func(body []byte) (bool, error)
}

// ErrNoAnswer says that a filter says nothing about a sample.
var ErrNoAnswer = errors.New("pubsub: the filter has no answer for a sample")

// A Receiver is a reader's side of the protocol: which samples are new, in order,
// and from a matched writer. Its methods run on goroutines that read from the network,
// and do not block. It is made by NewReceiver.
type Receiver struct {
	incarnation uint64 // of the participant
	schema      uint64
	events      Events
	out         Inlet
	orphans     *orphans      // of a transient reader
	narrow      bool          // it wants one instance
	quiet       time.Duration // minQuiet
	patience    time.Duration // returnFor

	mu      sync.Mutex
	name    string // of the endpoint
	qos     Policies
	writers map[string]*remoteWriter // by the last two levels of their topics
	count   int                      // of matches so far
	reach   partition.List           // from which retained samples are taken
	cache   *cache.Cache
	change  wait.Change // of anything
	stalled bool        // a sample was turned away because the cache is full

	heard    time.Time // when a sample of any writer came that was not asked for
	screened int       // messages with samples that the filter looks at now

	inquiry time.Time // when writers are asked again as there is no connection; zero while there is

	due   time.Time   // when Tick has something to do; zero for never
	timed atomic.Bool // due is not zero
}

// remoteWriter is a writer that matches or did; it is remembered because it may
// only have lost its connection.
type remoteWriter struct {
	cache.Writer
	match      string // how we call the match, for as long as it goes on where it was
	since      uint64 // how often we had changed our policies when it began
	partitions partition.List
	epoch      uint64 // of its connection
	schema     uint64
	reliable   bool // both sides are, or it is catching up
	catching   bool // it is best effort, and we have not all of its history yet
	matched    bool
	started    bool               // next is known
	next       uint64             // the first sample not yet received
	last       uint64             // the last one known to exist
	historic   uint64             // the last one written before we came
	lacked     uint64             // up to here what is not there is lost, and asked for
	heard      time.Time          // when a sample came that was not asked for
	silent     time.Time          // when it told of samples first since then; zero: it has not
	spoke      time.Time          // when it did last
	silence    time.Duration      // between those
	passed     uint64             // the last of those: none before it is on its way for the first time
	told       uint64             // the last one that a heartbeat told of
	owed       uint64             // to be acknowledged as soon as it is there; 0 for none
	early      map[uint64]*sample // came before the one expected
	earlyBytes int
	crowded    bool   // it was told to wait
	stuck      uint64 // the sample that there is no room for an instance of; 0 for none
	asked      time.Time
	acked      uint64 // the last one that was acknowledged
	fresh      int    // bytes of samples that came since

	ended     bool         // it has said that it writes nothing after end
	lacks     []wire.Range // given up; of a transient reader
	end       uint64
	leaving   bool      // it is closed or parted, and not all of that is there
	again     bool      // it was asked again which sample was the last
	parted    bool      // a change of policies has ended the match: another would be a new one
	unmatched bool      // it had died and was told of as unmatched
	news      time.Time // when a sample came, since it is leaving

	alive   bool          // matched, and asserted within its lease
	lease   time.Duration // of liveliness; 0 is infinite
	due     time.Time     // when the lease ends
	vouched bool          // due is the writer's word, not the benefit of the doubt
	mine    uint64        // of a narrow reader: the last one received
}

// sample is one that a matched writer sent, or a dead one left.
type sample struct {
	cache.Sample
	refused  error  // by the content filter; nil if it lets the sample through
	previous uint64 // see wire.Options
}

// A Reader is who receives samples.
type Reader struct {
	Policies
	Incarnation uint64 // of the participant
	Schema      uint64
	Narrow      bool          // it wants one instance
	Patience    time.Duration // how long a writer that died is waited for; 0 is 30 s
}

// NewReceiver makes the receiver of a reader, which has its name from Named.
func NewReceiver(rd *Reader, out Inlet, ev Events) *Receiver {
	r := &Receiver{
		incarnation: rd.Incarnation, schema: rd.Schema, events: ev, out: out, narrow: rd.Narrow, quiet: minQuiet, patience: cmp.Or(rd.Patience, returnFor),
		qos: rd.Policies, writers: map[string]*remoteWriter{}, reach: rd.Partitions, cache: cache.New(rd.ofCache()),
	}
	if rd.Transient {
		r.orphans = &orphans{byID: map[string]*Orphan{}}
	}
	return r
}

// Named gives the receiver the name of its endpoint, before anything matches it.
func (r *Receiver) Named(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name = name
}

// writerLevels are the last two levels of a writer's data topics.
func writerLevels(g wire.GUID) string {
	p, err := level.Encode(g.Participant)
	if err != nil {
		return ""
	}
	return p + "/" + g.Endpoint
}

// Matched begins to take the samples of a writer.
func (r *Receiver) Matched(p Peer) {
	r.mu.Lock()
	defer r.unlock()
	levels := writerLevels(p.GUID)
	r.cameBack(p.GUID)
	w := r.writers[levels]
	if w != nil && w.leaving { // what is on the way now is of another
		if r.giveUp(w, time.Now()); w.leaving {
			r.depart(w, time.Now())
		}
		w = r.writers[levels]
	}
	if w == nil || w.GUID != p.GUID {
		r.lose(w)
		if len(r.writers) >= maxWriters && !r.forget() {
			r.events.SampleRejected(p.GUID, errors.New("pubsub: too many writers"))
			return
		}
		r.count++
		w = &remoteWriter{Writer: cache.Writer{GUID: p.GUID}, match: strconv.Itoa(r.count), since: p.Ours, early: map[uint64]*sample{}, reliable: r.qos.Reliable && p.Reliable}
		w.catching = !w.reliable && r.qos.Historic
		w.reliable = w.reliable || w.catching
		w.started = !w.reliable
		r.writers[levels] = w
	}
	w.matched, w.schema, w.ended, w.leaving, w.Died = true, p.Schema, false, false, time.Time{}
	w.partitions, w.epoch, w.lacks, w.silent = p.Partitions, p.Epoch, nil, time.Time{}
	r.events.Matched(p.GUID)
	r.beginLease(w, &p, time.Now())
	r.ask(w, true)
}

// forget makes room for a writer.
func (r *Receiver) forget() bool {
	for levels, w := range r.writers {
		if !w.matched {
			r.lose(w)
			delete(r.writers, levels)
			return true
		}
	}
	return false
}

// Unmatched ends that: what is on its way still comes.
func (r *Receiver) Unmatched(g wire.GUID, died bool) {
	r.mu.Lock()
	defer r.unlock()
	w := r.writers[writerLevels(g)]
	if w == nil || w.GUID != g || !w.matched {
		return
	}
	if now := time.Now(); !r.stays(w, died, now) {
		r.awaitReturn(w, died, now)
		r.depart(w, now)
	}
}

// depart ends a writer that was closed or died, or does not match any more.
func (r *Receiver) depart(w *remoteWriter, now time.Time) {
	w.matched, w.leaving = false, false
	if w.parted {
		delete(r.writers, writerLevels(w.GUID))
	} else {
		r.orphaned(w)
	}
	if w.unmatched {
		return
	}
	if w.alive {
		r.notAlive(w, now)
	} else { // it was counted as such
		r.livelinessChanged(w)
	}
	r.events.Unmatched(w.GUID)
}

// take handles a sample of a matched writer.
func (r *Receiver) take(w *remoteWriter, a *arrival, now time.Time) {
	e := &a.Envelope
	s := sample{
		Sample:  cache.Sample{Key: a.key, Writer: &w.Writer, Seq: e.Seq, Nanos: e.Nanos, Status: e.Options.Status, Body: e.Body, Expiry: cache.ExpiryOf(e, now)},
		refused: a.refused, previous: e.Options.Previous,
	}
	if s.Strength, s.Change = w.Strength, w.Change; e.Options.Ownership.Told {
		s.Strength, s.Change = e.Options.Ownership.Strength, e.Options.Ownership.Change
	}
	if !w.alive && w.matched { // its samples have come to life before its word that it has
		r.revive(w, now)
	}
	if !w.reliable {
		if s.Seq < w.next {
			r.out.Drop(drop.Duplicate)
			return
		}
		w.next = s.Seq + 1
		r.deliver(w, s, now)
		r.drained(w, now)
		return
	}
	w.last, w.lacked = max(w.last, s.Seq), max(w.lacked, s.Seq)
	switch {
	case w.started && s.Seq < w.next:
		r.out.Drop(drop.Duplicate)
	case w.started && r.follows(w, &s):
		if !r.deliver(w, s, now) {
			w.keepEarly(&s) // until there is room
			return
		}
		if w.early[s.Seq] != nil { // which it did
			w.forgetEarly(s.Seq)
		}
		w.next = s.Seq + 1
		w.fresh += len(s.Body)
		r.catchUp(w, now)
		if w.owed > 0 && w.next > w.owed || w.next > w.acked+ackWindow || w.fresh >= ackBytes {
			r.ask(w, false)
		}
	default:
		w.keepEarly(&s)
		if now.Sub(w.asked) >= minAsk {
			r.ask(w, false)
		}
	}
}

// deliver reports false when the sample must come again.
func (r *Receiver) deliver(w *remoteWriter, s sample, now time.Time) bool {
	if !r.consider(w, s, now) {
		return false
	}
	if r.narrow && w.reliable && !s.Orphan {
		r.missed(w, &s)
	}
	return true
}

// consider takes a sample into the cache if it is wanted. It reports false when it
// must come again.
func (r *Receiver) consider(w *remoteWriter, s sample, now time.Time) bool {
	if s.Expiry.Over(now) {
		return true
	}
	if r.out.Filter != nil && !r.wanted(&s) {
		return true
	}
	if r.orphans != nil && r.overtaken(w, &s) {
		r.out.Drop(drop.Duplicate)
		return true
	}
	ok, err := r.cache.Accept(s.Sample, now)
	if !ok && w.reliable {
		r.turnAway(w, &s, err)
		return false
	}
	w.stuck = 0
	if r.orphans != nil {
		r.note(w, &s, err)
	}
	switch {
	case errors.Is(err, cache.ErrLate):
		r.out.Drop(drop.Late)
	case err != nil:
		r.events.SampleRejected(w.GUID, err)
	}
	r.schedule(r.cache.Due())
	return true
}

// turnAway follows a sample for which there is no room now.
func (r *Receiver) turnAway(w *remoteWriter, s *sample, why error) {
	if !errors.Is(why, cache.ErrInstances) {
		r.stalled = true
	} else if w.stuck != s.Seq {
		w.stuck = s.Seq
		r.events.SampleRejected(w.GUID, cache.ErrInstances)
	}
}

// Matches counts matched writers, reliable ones once they have told with which sample we
// begin: one that has not heard of us yet neither keeps nor repeats for us what it writes.
// The channel is closed when the number may have changed.
func (r *Receiver) Matches() (n int, change <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.writers {
		if w.matched && (w.started || w.catching) {
			n++
		}
	}
	return n, r.change.Next()
}

// unlock gives the mutex back after a change.
func (r *Receiver) unlock() {
	r.change.Happened()
	r.mu.Unlock()
}
