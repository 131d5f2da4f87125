package pubsub

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// Transient durability: the broker retains the last value of each instance by
// each writer. While the writer lives, its own history serves late joiners, as
// with TransientLocal, and what is retained is not looked at. Once it is gone, the
// retained value is what there is. A reader gets it before anything live, marked
// as of an instance without writers, and not again.

// maxOrphans bounds the retained samples that one reader remembers.
const maxOrphans = 1 << 16

var errOrphans = errors.New("pubsub: too many samples of writers that are gone")

// maxLost is how many messages a lost connection takes along at most.
const maxLost = outboxPackets + maxInFlight

// retention is what a transient writer has the broker keep.
type retention struct {
	put     func(partition, key string, payload []byte) error // retained; an empty payload clears
	last    map[string]retained                               // by key
	dirty   map[string]struct{}                               // keys that the broker may not have as in last
	cleared []retained                                        // oldest first; forgotten once it cannot be lost any more
}

type retained struct {
	key     string
	seq     uint64
	payload []byte // empty: disposed
}

func newRetention(put func(partition, key string, payload []byte) error) *retention {
	return &retention{put: put, last: map[string]retained{}, dirty: map[string]struct{}{}}
}

// distribute publishes a sample.
func (s *sender) distribute(key string, payload []byte, e *envelope) error {
	if s.retention == nil || e.options.status != statusData {
		return s.publish(key, payload)
	}
	return s.retain(key, payload)
}

// retain fails if no partition has it; if only some lack it, that is repaired later.
func (s *sender) retain(key string, payload []byte) (err error) {
	delete(s.retention.dirty, key)
	sent := false
	for _, p := range s.partitions {
		if e := s.retention.put(p, key, payload); e != nil {
			err = e
		} else {
			sent = true
		}
	}
	if err != nil {
		s.retention.dirty[key] = struct{}{}
	}
	if sent {
		return nil
	}
	return err
}

// distributed follows what a writer has written.
func (s *sender) distributed(key string, payload []byte, e *envelope) {
	if s.retention == nil {
		return
	}
	switch e.options.status {
	case statusData:
		s.retention.last[key] = retained{key, s.seq, payload}
	case statusDispose:
		s.retention.last[key] = retained{key: key, seq: s.seq}
		s.clear(key)
	}
}

// clear has the broker forget an instance.
func (s *sender) clear(key string) {
	if s.retain(key, nil) != nil {
		return
	}
	t := s.retention
	t.cleared = append(t.cleared, t.last[key])
	for ; len(t.cleared) > maxLost; t.cleared = t.cleared[1:] {
		if old := t.cleared[0]; t.last[old.key].seq == old.seq {
			delete(t.last, old.key)
		}
	}
}

// outlived has the broker forget what a lifespan has ended, if nothing newer took
// its place.
func (s *sender) outlived(key string, seq uint64) {
	if s.retention != nil && s.retention.last[key].seq == seq {
		s.retention.last[key] = retained{key: key, seq: seq}
		s.clear(key)
	}
}

// stale follows a reconnection: what was under way is lost, and the broker may
// have lost its memory.
func (s *sender) stale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retention != nil {
		for key := range s.retention.last {
			s.retention.dirty[key] = struct{}{}
		}
	}
}

// refresh has the broker keep what it may have lost. It returns when to go on,
// zero for not until something happens.
func (s *sender) refresh(now time.Time) (next time.Time) {
	if s.retention == nil {
		return time.Time{}
	}
	for key := range s.retention.dirty {
		var err error
		if kept := s.retention.last[key]; len(kept.payload) > 0 {
			err = s.retain(key, kept.payload)
		} else {
			s.clear(key)
		}
		if _, still := s.retention.dirty[key]; still || err != nil {
			return now.Add(minBeat)
		}
	}
	return time.Time{}
}

// dataChanged follows the data lane.
func (x *exchange) dataChanged(up, again bool) {
	if !up || !again {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.local {
		if s, ok := l.core.(*sender); ok {
			s.stale()
		}
	}
	signal(x.wake)
}

// orphans are the retained samples that a transient reader knows of.
type orphans struct {
	settled    bool // it is known which writers live
	byID       map[string]*orphan
	turnedAway []string // ids of those that found no room
}

type orphan struct {
	inSample
	levels string // of the writer
	guid   GUID
	given  bool // or not to be given; the body is gone
}

func orphanID(key, levels string) string { return levels + "\x00" + key }

// retained handles a message that the broker has kept.
func (x *exchange) retained(r *receiver, key, levels string, payload []byte) {
	if r.orphans == nil {
		return
	}
	var e envelope
	if err := parseEnvelope(payload, &e); err != nil {
		r.drop(malformed(err))
		return
	}
	participant, endpoint, _ := strings.Cut(levels, "/")
	id, err := DecodeLevel(participant)
	if err != nil || e.kind != kindSample || e.options.status != statusData || e.seq == 0 || e.seq > maxSeq || e.schema != r.schema {
		r.drop(dropKind)
		return
	}
	o := &orphan{
		inSample: inSample{key: key, seq: e.seq, nanos: e.nanos, body: e.body, orphan: true, mortal: lifespanOf(&e, time.Now())},
		levels:   levels, guid: GUID{id, e.epoch, endpoint},
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	r.adopt(o, x.standing)
}

// standing reports whether a writer is alive; x.mu is held.
func (x *exchange) standing(g GUID) bool {
	e, pr := x.remote[g.Participant][g.Endpoint], x.alive[g.Participant]
	return e != nil && e.guid == g && pr.Alive && pr.Epoch == e.epoch && pr.Incarnation == g.Incarnation
}

// adopt remembers a retained sample, and gives it if its writer is gone.
func (r *receiver) adopt(o *orphan, standing func(GUID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := orphanID(o.key, o.levels)
	old := r.orphans.byID[id]
	switch w := r.writers[o.levels]; {
	case old != nil && old.guid.Incarnation >= o.guid.Incarnation && (old.guid != o.guid || old.seq >= o.seq):
		return // known; brokers repeat themselves after every subscription
	case w != nil && w.guid == o.guid && w.started && o.seq < w.next:
		return // received live
	case old == nil && len(r.orphans.byID) >= maxOrphans:
		r.events.add(SampleRejected{o.guid, errOrphans})
		return
	}
	r.orphans.byID[id] = o
	if r.orphans.settled && !standing(o.guid) {
		r.give(o, time.Now())
	}
}

// settle is called once, when the retained samples and the announcements of the
// living have arrived, and before anything live is delivered.
func (r *receiver) settle(standing func(GUID) bool) {
	if r.orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphans.settled = true
	r.giveAll(func(o *orphan) bool { return !standing(o.guid) })
}

// giveAll gives those which are wanted in the order in which they were written.
func (r *receiver) giveAll(wanted func(*orphan) bool) {
	var all []*orphan
	for _, o := range r.orphans.byID {
		if !o.given && wanted(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *orphan) int {
		return cmp.Or(moment{a.nanos, a.guid}.compare(moment{b.nanos, b.guid}), strings.Compare(a.key, b.key))
	})
	now := time.Now()
	for _, o := range all {
		r.give(o, now)
	}
}

func (r *receiver) give(o *orphan, now time.Time) {
	w := r.writers[o.levels]
	if w == nil || w.guid != o.guid {
		w = &remoteWriter{guid: o.guid, reliable: true}
	}
	o.writer = w
	if !r.deliver(w, o.inSample, now) {
		r.orphans.turnedAway = append(r.orphans.turnedAway, orphanID(o.key, o.levels))
		return
	}
	o.given, o.body = true, nil
}

// giveRest gives what was turned away once there is room.
func (r *receiver) giveRest() {
	if r.orphans == nil || len(r.orphans.turnedAway) == 0 || r.cache.live > r.qos.MaxSamples/2 {
		return
	}
	again := r.orphans.turnedAway
	r.orphans.turnedAway = nil
	for _, id := range again {
		if o := r.orphans.byID[id]; o != nil && !o.given {
			r.give(o, time.Now())
		}
	}
}

// orphaned gives what a writer that has gone wrote last and we have not heard.
func (r *receiver) orphaned(w *remoteWriter) {
	if r.orphans != nil && r.orphans.settled {
		r.giveAll(func(o *orphan) bool { return o.guid == w.guid && o.seq >= w.next })
	}
}

// repeated reports whether a live sample is one that was given as an orphan, or
// older: its writer was thought to be gone.
func (r *receiver) repeated(w *remoteWriter, s *inSample) bool {
	if s.orphan {
		return false
	}
	o := r.orphans.byID[orphanID(s.key, writerLevels(w.guid))]
	return o != nil && o.guid == w.guid && o.given && s.seq <= o.seq
}

// outdated forgets what is retained of a writer of which newer is received.
func (r *receiver) outdated(w *remoteWriter, s *inSample) {
	id := orphanID(s.key, writerLevels(w.guid))
	if o := r.orphans.byID[id]; o != nil && !s.orphan && o.guid == w.guid && s.seq >= o.seq {
		delete(r.orphans.byID, id)
	}
}

// cleared follows a disposal: the broker has forgotten the value, so do we.
func (r *receiver) cleared(key, levels string) {
	if r.orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.orphans.byID, orphanID(key, levels))
}
