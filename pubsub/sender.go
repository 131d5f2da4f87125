package pubsub

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// ErrTimeout says that a writer could not write in time: its readers do not
// acknowledge, or the broker does not take messages. Nothing was written.
var ErrTimeout = errors.New("pubsub: timeout")

const (
	// minBeat and maxBeat bound the time between heartbeats to a reader which
	// has not acknowledged everything.
	minBeat = 100 * time.Millisecond
	maxBeat = time.Second
	// goneFor is how long a writer keeps unacknowledged samples for a reader
	// whose participant died: it may only have lost its connection.
	goneFor = 10 * time.Second
	// repairBurst bounds the samples sent again for one request, repairBytes
	// their size; the heartbeat after them makes the reader ask for the rest.
	repairBurst = 64
	repairBytes = 256 << 10
	// maxLooked bounds the search for what is held, whatever a reader asks for.
	maxLooked = 1 << 16
)

// sender is a writer's side of the protocol: history, who has acknowledged what,
// and repair. It knows neither sample types nor MQTT.
type sender struct {
	name        string // of the endpoint
	incarnation uint64
	qos         QoS
	events      *events
	publish     func(key string, payload []byte) error // on the data topics; never blocks
	post        func(to string, letter []byte)         // to an inbox; never blocks, may lose
	placed      func() uint64                          // where what was published last stands on its way to the broker
	passed      func() uint64                          // up to where nothing is on that way any more
	urge        func()                                 // ends the gathering of what was published
	wake        func()                                 // has tick called soon

	mu      sync.Mutex
	seq     uint64 // of the last sample
	low     uint64 // no sample below is held
	held    map[uint64]*heldSample
	history map[string][]uint64 // numbers held, by key, oldest first; of KeepLast
	readers map[GUID]*remoteReader
	change  chan struct{} // closed when acknowledgements or readers change; nil if nobody waits

	deadlines deadlines
	life      lifeSigns
	born      time.Time // what heldSample.expires counts from
	mortals   []uint64  // numbers of samples with a lifespan, in order; some not held any more

	partitions []string // levels published to
	coalesces  bool
	keyed      bool // the topic has instances; one of them may be called "-"
	company    company
	stamped    uint64 // last source time, of a writer by source time
	retention  *retention
	pressedLow uint64 // low at the last press, and when that was
	pressed    time.Time
	until      time.Time // when tick wanted to be called; zero for not until something happens
}

type heldSample struct {
	key     string
	payload []byte
	expires time.Duration // after sender.born; 0 is never
	place   uint64        // on its way to the broker
}

// remoteReader is a matched reader.
type remoteReader struct {
	reliable  bool
	confirmed bool   // it has told that it matches too
	base      uint64 // it starts after this one
	acked     uint64
	burst     uint64    // the last number that is on the way to it again, 0 for none
	waits     time.Time // since when it lacks what is on its way, without getting on; zero for not
	beat      time.Time // when the next heartbeat is due
	interval  time.Duration
	gone      time.Time // when its participant died; zero while alive

	partitions partitions
	bundles    bool // it understands them

	instance string // encoded key, of a narrow reader
	last     uint64 // no sample of that instance is after it
}

func newSender(name string, incarnation uint64, q QoS, ev *events) *sender {
	return &sender{
		name: name, incarnation: incarnation, qos: q, events: ev, low: 1,
		held: map[uint64]*heldSample{}, history: map[string][]uint64{}, readers: map[GUID]*remoteReader{},
		deadlines:  deadlines{period: q.Deadline},
		partitions: partitions(q.Partition).published(nil),
		placed:     func() uint64 { return 0 },
		passed:     func() uint64 { return 0 },
		urge:       func() {},
		wake:       func() {},
	}
}

// tryWrite publishes a sample. It returns errFull, and a channel to wait on,
// when the history has no room.
func (s *sender) tryWrite(key string, e *envelope) (wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.hurry()
	readers, previous := s.interest(key)
	keep := s.qos.Reliability == Reliable && (s.qos.Durability >= TransientLocal || readers > 0)
	replaces := s.qos.History == KeepLast && len(s.history[key]) >= s.qos.Depth
	if keep && !replaces && len(s.held) >= s.qos.MaxSamples {
		s.press(time.Now())
		return s.changes(), errFull
	}
	e.kind, e.epoch, e.seq = kindSample, s.incarnation, s.seq+1
	e.options.previous = previous
	if s.coalesces && s.keyed {
		e.options.key = []byte(key)
	}
	s.stamp(e)
	payload := appendEnvelope(make([]byte, 0, len(e.body)+64), e)
	err = s.distribute(key, payload, e)
	// A reliable sample that waits in the history is repaired after a reconnection.
	if err != nil && (!errors.Is(err, ErrOffline) || s.qos.Reliability == BestEffort) {
		return nil, err
	}
	s.seq++
	if previous > 0 {
		s.accountFor(key)
	}
	s.distributed(key, payload, e)
	if keep {
		s.hold(key, payload)
		s.hasLifespan(s.held[s.seq], e.options.status)
	} else {
		s.raise()
	}
	if s.deadlines.period > 0 || s.life.assertion != nil {
		now := time.Now()
		s.wrote(key, e.options.status, now)
		s.asserted(now)
	}
	return nil, nil
}

// hurry has tick called if something is due before it would be.
func (s *sender) hurry() {
	if s.deadlines.period > 0 || s.qos.Lifespan > 0 || s.life.assertion != nil || s.retention != nil {
		s.wake()
		return
	}
	for _, r := range s.readers {
		if r.reliable && r.gone.IsZero() && s.reached(r) < s.seq && (s.until.IsZero() || r.beat.Before(s.until)) {
			s.wake()
			return
		}
	}
}

// press asks for acknowledgements because the history is full: at once after some of
// it has moved, else now and then. A reader acknowledges at once and again when it has
// all that it was told of, so asking for every step would be for nothing; and one that
// is full too answers each heartbeat with the same acknowledgement, which wakes Write,
// which asks again.
func (s *sender) press(now time.Time) {
	if s.low > s.pressedLow+uint64(s.qos.MaxSamples/8) || now.Sub(s.pressed) >= minBeat {
		s.pressedLow, s.pressed = s.low, now
		s.urge()
		s.beatNow()
	}
}

var errFull = errors.New("pubsub: the writer's history is full")

func (s *sender) hold(key string, payload []byte) {
	s.held[s.seq] = &heldSample{key: key, payload: payload, place: s.placed()}
	if s.qos.History == KeepLast {
		numbers := append(s.history[key], s.seq)
		for len(numbers) > s.qos.Depth {
			delete(s.held, numbers[0])
			numbers = numbers[1:]
		}
		s.history[key] = numbers
	}
	s.raise()
	due := time.Now().Add(minBeat)
	for _, r := range s.readers {
		if r.reliable && (r.beat.IsZero() || r.beat.After(due)) {
			r.beat, r.interval = due, minBeat
		}
	}
	if n := len(s.held); n == s.qos.MaxSamples/2 || n == s.qos.MaxSamples*3/4 {
		s.beatNow()
	}
}

// raise moves low over what is not held any more.
func (s *sender) raise() {
	for s.low <= s.seq && s.held[s.low] == nil {
		s.low++
	}
}

// trim forgets what every reader has, unless late joiners want it.
func (s *sender) trim() {
	if s.qos.Durability >= TransientLocal {
		return
	}
	acked := s.seq
	for _, r := range s.readers {
		if r.reliable {
			acked = min(acked, s.reached(r))
		}
	}
	for ; s.low <= acked; s.low++ {
		s.release(s.low)
	}
	s.raise()
}

// release forgets one sample.
func (s *sender) release(seq uint64) {
	h := s.held[seq]
	if h == nil {
		return
	}
	delete(s.held, seq)
	if numbers := s.history[h.key]; len(numbers) > 0 {
		if i := slices.Index(numbers, seq); i >= 0 {
			numbers = slices.Delete(numbers, i, i+1)
		}
		if s.history[h.key] = numbers; len(numbers) == 0 {
			delete(s.history, h.key)
		}
	}
}

// changes returns a channel that is closed at the next change.
func (s *sender) changes() <-chan struct{} {
	if s.change == nil {
		s.change = make(chan struct{})
	}
	return s.change
}

func (s *sender) changed() {
	if s.change != nil {
		close(s.change)
		s.change = nil
	}
}

// matched begins to serve a reader.
func (s *sender) matched(e endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[e.guid]
	if r == nil {
		r = &remoteReader{reliable: e.QoS.Reliability == Reliable, base: s.seq}
		if e.QoS.Durability >= TransientLocal {
			r.base = 0
		}
		r.acked = r.base
		s.begin(r, &e)
		s.readers[e.guid] = r
	}
	r.gone, r.partitions, r.bundles = time.Time{}, e.QoS.Partition, e.QoS.Bundles
	s.repartition()
	s.regroup()
	r.confirmed, r.interval, r.burst, r.waits = false, minBeat, 0, time.Time{}
	s.life.sent, s.life.told = time.Time{}, time.Time{} // if it was away it missed that
	now := time.Now()
	s.expire(now)
	s.heartbeat(e.guid, r, now)
	s.events.add(Matched{e.guid})
}

// unmatched ends it: at once when the reader was closed, later when it died.
func (s *sender) unmatched(g GUID, died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.readers[g]; r != nil && died {
		r.gone = time.Now()
		r.confirmed = false
	} else {
		delete(s.readers, g)
		s.repartition()
		s.regroup()
		s.trim()
	}
	s.changed()
	s.events.add(Unmatched{g})
}

func (s *sender) heartbeat(g GUID, r *remoteReader, now time.Time) {
	first, last := s.extent(r)
	s.send(g, &repairMessage{op: opHeartbeat, a: first, b: last, c: r.base})
	r.beat = now.Add(r.interval)
	r.interval = min(2*r.interval, maxBeat)
}

func (s *sender) beatNow() {
	now := time.Now()
	for g, r := range s.readers {
		if r.reliable && s.reached(r) < s.seq && r.gone.IsZero() {
			s.heartbeat(g, r, now)
		}
	}
}

func (s *sender) send(to GUID, m *repairMessage) {
	m.from, m.to, m.incarnation = s.name, to.Endpoint, to.Incarnation
	s.post(to.Participant, m.encode(s.incarnation))
}

// tick sends the heartbeats that are due and reports when it wants to be called
// again; zero for not until something happens.
func (s *sender) tick(now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.until = next }()
	next = s.refresh(now)
	for g, r := range s.readers {
		due := r.beat
		switch {
		case !r.gone.IsZero() && now.Sub(r.gone) > goneFor:
			delete(s.readers, g)
			s.repartition()
			s.regroup()
			s.trim()
			s.changed()
			continue
		case !r.gone.IsZero():
			due = r.gone.Add(goneFor + time.Millisecond)
		case r.confirmed && (!r.reliable || s.reached(r) >= s.seq):
			continue
		case !now.Before(r.beat):
			r.burst = 0 // nothing came of it
			s.heartbeat(g, r, now)
			due = r.beat
		}
		next = earliest(next, due)
	}
	return earliest(next, s.tickTime(now))
}

// acknowledged handles what a reader says it has and lacks.
func (s *sender) acknowledged(from GUID, m *repairMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[from]
	if r == nil || !r.gone.IsZero() {
		return
	}
	r.confirmed = true
	if m.b == 1 { // it has just come and knows nothing of when we were asserted
		s.life.sent, s.life.told = time.Time{}, time.Time{}
	}
	if m.a > r.acked && m.a <= s.seq {
		r.acked, r.interval, r.waits = m.a, minBeat, time.Time{}
	}
	s.trim()
	s.changed()
	if !r.reliable {
		return
	}
	if len(m.ranges) == 0 {
		r.burst = 0 // all came, or it has no room for what is on the way
	}
	// Requests that left before the last answer came would have the same sent once
	// more for each, and every answer asks for the next request.
	again := false
	if m.a >= r.burst {
		r.burst, again = s.resend(from, m.ranges)
	}
	if m.b == 1 || again {
		r.interval = minBeat
		s.heartbeat(from, r, time.Now())
	}
}

// resend answers a request; it returns the last number that it answered for, and
// whether the reader should be told what else there is.
func (s *sender) resend(to GUID, ranges []seqRange) (last uint64, more bool) {
	now := time.Now()
	s.expire(now)
	passed := s.passed()
	reader := s.readers[to]
	if !reader.waits.IsZero() && now.Sub(reader.waits) >= maxBeat {
		passed = math.MaxUint64 // what holds it up may do so for ever
	}
	var gaps []seqRange
	samples, size, looked := 0, 0, 0
	for _, want := range ranges {
		for n := max(want.first, 1); n <= min(want.last, s.seq); n++ {
			h := s.held[n]
			switch {
			case !reader.wants(h):
				// Up to the next one held, or all that is wanted.
				end := max(n, min(want.last, s.low-1))
				for end < min(want.last, s.seq) && !reader.wants(s.held[end+1]) && looked < maxLooked {
					end++
					looked++
				}
				gaps = append(gaps, seqRange{n, end})
				n = end
			case h.place > passed: // on its way for the first time, as all after it are
				if reader.waits.IsZero() {
					reader.waits = now
				}
				s.sendGaps(to, gaps)
				return last, samples > 0
			default:
				s.send(to, &repairMessage{op: opSample, key: h.key, sample: h.payload})
				samples, size = samples+1, size+len(h.payload)
			}
			last = max(last, min(n, s.seq))
			if samples >= repairBurst || size >= repairBytes || len(gaps) >= maxRanges || looked >= maxLooked {
				s.sendGaps(to, gaps)
				return last, true
			}
		}
	}
	s.sendGaps(to, gaps)
	return last, samples > 0
}

func (s *sender) sendGaps(to GUID, gaps []seqRange) {
	for some := range slices.Chunk(gaps, maxRanges) {
		s.send(to, &repairMessage{op: opGap, ranges: some})
	}
}

// lagging returns a channel to wait on, or nil when every matched reliable
// reader has acknowledged up to seq. It asks those which have not.
func (s *sender) lagging(seq uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if r.reliable && s.reached(r) < seq {
			return s.changes()
		}
	}
	return nil
}

// last returns the number of the last sample, after asking for acknowledgement.
func (s *sender) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urge()
	s.beatNow()
	return s.seq
}

// confirmedReaders counts the readers which match from both sides; the channel
// is closed when that may have changed.
func (s *sender) confirmedReaders() (n int, change <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if r.confirmed {
			n++
		}
	}
	return n, s.changes()
}

func (s *sender) fullError() error {
	return fmt.Errorf("%w: the history of %d samples is full and a reader does not acknowledge: raise MaxSamples or MaxBlocking, use KeepLast, or look after the readers", ErrTimeout, s.qos.MaxSamples)
}
