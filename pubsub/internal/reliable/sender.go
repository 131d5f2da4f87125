package reliable

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/partition"
	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// ErrFull says that a writer's history has no room.
var ErrFull = errors.New("pubsub: the writer's history is full")

// goneFor is how long a writer keeps unacknowledged samples for a reader whose
// participant died: it may only have lost its connection.
const goneFor = 10 * time.Second

// maxMatch bounds the name of a match, in bytes.
const maxMatch = 20

// Out is how a sender sends. No function blocks or calls the sender.
type Out struct {
	Publish func(partition, key string, payload []byte, with Sharing) error // a sample
	Retain  func(partition, key string, payload []byte) error               // one that the broker keeps; empty: no longer
	Left    func(partition, key string) (writers []string)                  // who have, in earlier incarnations, left a value with the broker
	Clear   func(partition, key, writer string) error                       // has the broker forget that, unless the writer has replaced it
	Cleared func(partition, key, writer string)                             // it has, and no lost connection brings that back
	Post    func(to string, message []byte)                                 // to an inbox; may lose it
	Placed  func() uint64                                                   // where what was published last stands on its way to the broker
	Passed  func() uint64                                                   // up to where nothing is on that way any more
	SendNow func()                                                          // ends the gathering of what was published
	MaxLost int                                                             // how many messages a lost connection takes along at most
	Wake    func()                                                          // has Tick called soon
	Gather  func(time.Duration)                                             // for how long samples may gather from now on
}

// A Sender is a writer's side of the protocol: history, who has acknowledged what,
// and repair. Its methods do not block, but for Linger. It is made by NewSender.
type Sender struct {
	name        string // of the endpoint
	topic       string
	incarnation uint64
	events      Events
	out         Out

	mu      sync.Mutex
	qos     Policies
	seq     uint64 // of the last sample
	closing bool   // nothing is written any more
	low     uint64 // no sample below is held
	held    map[uint64]*heldSample
	history map[string][]uint64 // numbers held, by key, oldest first; of keep last, and for late joiners
	surplus []uint64            // numbers that are not for late joiners, in the order in which they came to be that
	over    []uint64            // numbers after which an instance is over, in order; some not held any more
	readers map[wire.GUID]*remoteReader
	left    map[wire.GUID]farewell // of reliable readers that a change of policies has left
	behind  map[wire.GUID]uint64   // how far reliable readers were that were given up
	change  wait.Change            // of acknowledgements or readers
	line    line                   // of writes

	deadlines timing.Deadlines
	life      lifeSigns
	born      time.Time // what ending.due counts from
	expiring  []ending  // of samples with a lifespan, in order; some not held any more

	partitions []string      // levels published to
	coalescing time.Duration // how long samples may gather; 0 if they go alone
	keyed      bool          // the topic has instances; one of them may be called "-"
	sharing    Sharing
	stamped    uint64 // last source time, of a writer by source time
	retention  *retention
	askedLow   uint64 // low at the last askForRoom, and when that was
	askedAt    time.Time
	writtenAt  time.Time     // when the last sample was held
	pause      time.Duration // the longest one between samples, lately
	until      time.Time     // when Tick wanted to be called; zero for not until something happens
}

type heldSample struct {
	key     string
	payload []byte
	buffer  *wire.Buffer // whose memory payload is; nil if it has its own
	place   uint64       // on its way to the broker
	over    bool         // late joiners want nothing of its instance up to here
}

// remoteReader is a matched reader.
type remoteReader struct {
	reliable  bool   // it gets all; a best-effort reader, until it has the history
	loose     bool   // it is a best-effort reader
	until     uint64 // the last sample of the history
	confirmed bool   // it has told that it matches too
	greeted   bool   // what it said last was an answer, no hello: it knows where it begins
	crowded   bool   // it has no room for more until it has what it lacks
	historic  bool   // it wants what there was before it
	match     string // how it calls the match with us, "" while it has not told
	epoch     uint64 // of its connection, when we heard of it
	change    uint64 // how often it had changed its policies then
	base      uint64 // it starts after this one
	acked     uint64
	burst     burst     // what is on the way to it again
	doubts    int       // answers without a sample in a row, which it may not believe yet
	waits     time.Time // since when it lacks what is on its way, without getting on; zero for not
	beat      time.Time // when the next heartbeat is due
	asked     time.Time // when it was asked first of the times that it has not answered; zero for none
	interval  time.Duration
	gone      time.Time // when its participant died; zero while alive

	partitions partition.List
	bundles    bool // it understands them

	instance string // encoded key, of a narrow reader
	last     uint64 // no sample of that instance is after it
}

// A Writer is whose samples a sender sends.
type Writer struct {
	Policies
	Topic       string
	Name        string // of the endpoint
	Incarnation uint64 // of the participant
	Keyed       bool   // the topic has instances
	Coalescing  time.Duration
	Assertion   *Assertion  // with a finite lease, or for others that have one; else nil
	Online      func() bool // whether readers can be reached
}

// NewSender makes the sender of a writer without readers.
func NewSender(w *Writer, out Out, ev Events) *Sender {
	s := &Sender{
		name: w.Name, topic: w.Topic, incarnation: w.Incarnation, qos: w.Policies, events: ev, out: out, low: 1,
		held: map[uint64]*heldSample{}, history: map[string][]uint64{}, readers: map[wire.GUID]*remoteReader{}, left: map[wire.GUID]farewell{}, behind: map[wire.GUID]uint64{},
		deadlines:  timing.Deadlines{Period: w.Deadline},
		life:       lifeSigns{Assertion: w.Assertion, online: w.Online},
		coalescing: w.Coalescing, keyed: w.Keyed,
	}
	s.partitions = s.qos.Partitions.Published(s.places)
	if w.Transient {
		s.retention = newRetention()
	}
	s.regroup()
	s.gather()
	return s
}

// TryWrite publishes a sample. It does not block: it returns ErrFull when the history has
// no room, or others are before it, and the errors of Out.Publish.
func (s *Sender) TryWrite(key string, e *wire.Envelope) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line.ahead > 0 {
		return ErrFull
	}
	err := s.tryWrite(key, e)
	s.follow(err)
	return err
}

// tryWrite is TryWrite with mu held.
func (s *Sender) tryWrite(key string, e *wire.Envelope) error {
	defer s.wakeIfDue()
	if s.closing {
		return failure.ErrClosed
	}
	readers, previous, crowded := s.interest(key)
	keep := s.qos.Historic || s.qos.Reliable && readers > 0
	replaces := !s.qos.KeepAll && len(s.history[key]) >= s.qos.Depth
	if keep && !replaces && (crowded && s.qos.Reliable && s.qos.KeepAll || !s.hasRoom(key, e.Options.Status)) {
		s.askForRoom(time.Now())
		return ErrFull
	}
	e.Kind, e.Epoch, e.Seq = wire.KindSample, s.incarnation, s.seq+1
	e.Options.Previous = previous
	if s.qos.Lifespan > 0 && e.Options.Status == wire.StatusData {
		e.Options.Lifespan = uint64(s.qos.Lifespan)
	}
	if s.qos.Exclusive {
		e.Options.Ownership = wire.Ownership{Told: true, Strength: s.qos.Strength, Change: s.qos.Change}
	}
	if s.coalescing > 0 && s.keyed {
		e.Options.Key = []byte(key)
	}
	s.stamp(e)
	payload, buffer := serialize(e)
	err := s.distribute(key, payload, e)
	// A reliable sample that waits in the history is repaired after a reconnection.
	if err != nil && (!errors.Is(err, failure.ErrOffline) || !s.qos.Reliable) {
		return err
	}
	if keep && !replaces {
		s.makeWay(key, e.Options.Status)
	}
	s.seq++
	if previous > 0 {
		s.accountFor(key)
	}
	s.distributed(key, payload, e)
	if buffer != nil {
		e.Buffer = nil // it is on its way
	}
	if keep {
		s.hold(key, payload, buffer, e.Options.Status)
		s.hasLifespan(e.Options.Status)
	} else {
		s.raise()
	}
	if s.deadlines.Period > 0 || s.life.Assertion != nil {
		now := time.Now()
		s.wrote(key, e.Options.Status, now)
		s.Asserted(now)
	}
	return nil
}

// Matched begins to serve a reader.
func (s *Sender) Matched(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[p.GUID]
	if r == nil {
		r = &remoteReader{loose: !p.Reliable, historic: p.Historic, instance: p.instanceLevel()}
		s.begin(r)
		s.readers[p.GUID] = r
	}
	delete(s.left, p.GUID)
	s.isBack(p.GUID)
	r.gone, r.partitions, r.bundles, r.epoch, r.change = time.Time{}, p.Partitions, p.Bundles, p.Epoch, p.Change
	r.confirmed, r.crowded = false, false
	s.repartition()
	s.regroup()
	s.retell(p.GUID, r)
	s.events.Matched(p.GUID)
}

// retell tells a reader that was away what there is: what it was told last, and what it said,
// may be lost.
func (s *Sender) retell(g wire.GUID, r *remoteReader) {
	// It says hello itself once it matches: who comes back among thousands is slow.
	r.interval, r.burst, r.doubts, r.waits, r.asked = maxBeat/2, burst{}, 0, time.Time{}, time.Time{}
	s.life.sent, s.life.told = time.Time{}, time.Time{}
	now := time.Now()
	s.expire(now)
	s.heartbeat(g, r, now)
}

// Unmatched ends that: at once when the reader was closed, later when it died.
func (s *Sender) Unmatched(g wire.GUID, died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.readers[g]; r != nil && died {
		r.gone = time.Now()
		r.confirmed, r.crowded = false, false
	} else {
		s.drop(g)
	}
	s.happened()
	s.events.Unmatched(g)
}

// drop forgets a reader.
func (s *Sender) drop(g wire.GUID) {
	delete(s.readers, g)
	s.repartition()
	s.regroup()
	s.trim()
}

func (s *Sender) send(to wire.GUID, m *wire.Repair) {
	m.From, m.To, m.Incarnation = s.name, to.Endpoint, to.Incarnation
	s.out.Post(to.Participant, m.Encode(s.incarnation))
}

// acknowledged handles what a reader says it has and lacks.
func (s *Sender) acknowledged(from wire.GUID, m *wire.Repair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[from]
	if r == nil || !r.gone.IsZero() {
		s.answerForLeft(from, m)
		return
	}
	if m.Key != "" && m.Key != r.match && len(m.Key) <= maxMatch {
		if r.match != "" { // it has left and come back, and we have not noticed
			s.begin(r)
		}
		r.match = m.Key
	}
	r.confirmed, r.greeted, r.crowded, r.asked = true, m.B == 0, m.C == 1, time.Time{}
	if m.B == 1 { // it has just come and knows nothing of when we were asserted
		s.life.sent, s.life.told = time.Time{}, time.Time{}
	}
	if m.A > r.acked && m.A <= s.seq {
		r.acked, r.waits, r.doubts = m.A, time.Time{}, 0
		if s.closing { // somebody waits for each step
			r.interval = minBeat
		}
	}
	if r.loose && m.B == 0 && len(m.Ranges) == 0 && s.reached(r) >= r.until { // it has the history
		r.reliable = false
	}
	s.trim()
	s.happened()
	if !r.reliable && !r.historic {
		return
	}
	// Requests that left before the last answer came would have the same sent once
	// more for each, and every answer asks for the next request.
	again, now := false, time.Now()
	r.burst.await(now)
	switch {
	case has(m, r.burst.last):
		r.burst.came(now, m.A >= r.burst.last)
		r.burst.last, again = s.resend(from, m.Ranges)
		r.burst.sent = now
	case len(m.Ranges) == 0: // it has no room for what is on the way
		r.burst.last = 0
	}
	if m.B == 1 || again {
		if r.interval = minBeat; s.reached(r) >= s.seq { // it lacks no more than the answer
			r.interval = maxBeat / 2
		}
		s.heartbeat(from, r, now)
	}
}

// Lagging returns a channel to wait on, or nil when every matched reliable
// reader has acknowledged up to seq. It asks those which have not.
func (s *Sender) Lagging(seq uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if r.reliable && s.reached(r) < seq {
			return s.change.Next()
		}
	}
	return nil
}

// Last returns the number of the last sample, after asking for acknowledgement.
func (s *Sender) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.SendNow()
	s.beatNow()
	return s.seq
}

// ConfirmedReaders counts the readers which match from both sides; the channel
// is closed when that may have changed.
func (s *Sender) ConfirmedReaders() (n int, change <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		if r.confirmed {
			n++
		}
	}
	return n, s.change.Next()
}

// WhyFull says why TryWrite has returned ErrFull for too long.
func (s *Sender) WhyFull() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := false
	for _, r := range s.readers {
		if r.crowded {
			return "a reader that was away has no room for more until it has what it missed: raise MaxBlocking"
		}
		waits = waits || r.reliable && s.reached(r) < s.seq
	}
	if !waits {
		return fmt.Sprintf("the history of %d samples is full, and kept for late joiners: dispose of instances that are over, %s", s.qos.MaxSamples, s.remedy())
	}
	return fmt.Sprintf("the history of %d samples is full and a reader does not acknowledge: raise MaxSamples or MaxBlocking, use KeepLast, or look after the readers", s.qos.MaxSamples)
}

// remedy is what a writer may do whose history is full of what is kept for late joiners.
func (s *Sender) remedy() string {
	switch {
	case !s.qos.KeepAll:
		return "raise MaxSamples, or use Volatile"
	case s.qos.DurabilityService > 0:
		return "raise MaxSamples, or lower DurabilityService"
	}
	return "say with DurabilityService how many are kept, raise MaxSamples, or use KeepLast or Volatile"
}
