package reliable

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wire"
)

const (
	// maxOrphans bounds the retained samples that one reader remembers.
	maxOrphans = 1 << 16
	// maxCleared bounds those of them which the broker has forgotten.
	maxCleared = 1 << 12
)

var errOrphans = errors.New("pubsub: too many samples of writers that are gone")

// orphans are the retained samples that a transient reader knows of.
type orphans struct {
	settled    bool // it is known which writers live
	byID       map[string]*Orphan
	turnedAway []string // ids of those that found no room
	waiting    []string // ids of those that wait for their writers, and of some that do not any more
	cleared    []string // ids of those that the broker has forgotten
}

// Orphan is what the broker has retained of a writer.
type Orphan struct {
	sample
	levels string    // of the writer
	in     []string  // partitions where it is retained
	done   bool      // given, or not to be given; the body is gone
	given  uint64    // the last sample of the writer and key that was
	until  time.Time // it waits for its writer to come back; zero if it never has
}

func orphanID(key, levels string) string { return levels + "\x00" + key }

// Orphan takes apart a message that the broker has retained, which came from a partition
// for a key, as a name, from the writer whose topics end with levels. It returns nil if it
// is of no use.
func (r *Receiver) Orphan(partition, key, levels string, payload []byte) *Orphan {
	if r.orphans == nil {
		return nil
	}
	var e wire.Envelope
	if err := wire.Parse(payload, &e); err != nil {
		r.out.Drop(drop.Unparsed(err))
		return nil
	}
	participant, endpoint, _ := strings.Cut(levels, "/")
	id, err := level.Decode(participant)
	if err != nil || e.Kind != wire.KindSample || e.Options.Status != wire.StatusData || e.Seq == 0 || e.Seq > maxSeq || e.Schema != r.schema {
		r.out.Drop(drop.Kind)
		return nil
	}
	o := &Orphan{levels: levels, in: []string{partition}}
	o.Sample = cache.Sample{
		Key: key, Writer: &cache.Writer{GUID: wire.GUID{Participant: id, Incarnation: e.Epoch, Endpoint: endpoint}},
		Seq: e.Seq, Nanos: e.Nanos, Body: e.Body, Expiry: cache.ExpiryOf(&e, time.Now()), Orphan: true,
		Strength: e.Options.Ownership.Strength, Change: e.Options.Ownership.Change,
	}
	o.previous = e.Options.Previous
	if r.out.Filter != nil {
		o.refused = r.verdict(&e)
	}
	return o
}

// Adopt remembers a retained sample, and gives it if its writer is gone.
func (r *Receiver) Adopt(o *Orphan, standing func(wire.GUID) bool) {
	r.mu.Lock()
	defer r.unlock()
	id := orphanID(o.Key, o.levels)
	old := r.orphans.byID[id]
	switch w := r.writers[o.levels]; {
	case old != nil && old.Writer.GUID.Incarnation >= o.Writer.GUID.Incarnation && (old.Writer.GUID != o.Writer.GUID || old.Seq >= o.Seq):
		if old.Writer.GUID == o.Writer.GUID && old.Seq == o.Seq && !slices.Contains(old.in, o.in[0]) {
			old.in = append(old.in, o.in[0])
		}
		return // known; brokers repeat themselves after every subscription
	case w != nil && w.GUID == o.Writer.GUID && w.has(o.Seq):
		return // received live
	case old == nil && len(r.orphans.byID) >= maxOrphans:
		r.events.SampleRejected(o.Writer.GUID, errOrphans)
		return
	}
	switch {
	case old == nil:
	case old.Writer.GUID != o.Writer.GUID: // it is of a life that is over
		if w := r.writers[o.levels]; w != nil && w.GUID == old.Writer.GUID {
			r.lose(w)
		}
	case old.done:
		o.given = old.given
	default:
		o.given, o.until = old.given, old.until
	}
	r.orphans.byID[id] = o
	if r.orphans.settled && !standing(o.Writer.GUID) {
		r.give(o, time.Now())
	}
}

// Settle is called once, when the retained samples and the announcements of the
// living have arrived, and before anything live is delivered.
func (r *Receiver) Settle(standing func(wire.GUID) bool) {
	if r.orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	if r.orphans.settled {
		return
	}
	r.orphans.settled = true
	r.giveAll(func(o *Orphan) bool { return !standing(o.Writer.GUID) })
}

// giveAll gives those which are wanted.
func (r *Receiver) giveAll(wanted func(*Orphan) bool) {
	var all []*Orphan
	for _, o := range r.orphans.byID {
		if !o.done && wanted(o) {
			all = append(all, o)
		}
	}
	r.giveInOrder(all, time.Now())
}

// giveInOrder gives values in the order in which they were written.
func (r *Receiver) giveInOrder(all []*Orphan, now time.Time) {
	slices.SortFunc(all, func(a, b *Orphan) int {
		return cmp.Or(a.Compare(&b.Sample), strings.Compare(a.Key, b.Key))
	})
	for _, o := range all {
		if !o.done { // one may be among them twice
			r.give(o, now)
		}
	}
}

// give gives what a writer that is gone has left, unless the writer itself still sends it.
func (r *Receiver) give(o *Orphan, now time.Time) {
	w := r.writers[o.levels]
	if w == nil || w.GUID != o.Writer.GUID {
		w = &remoteWriter{Writer: cache.Writer{GUID: o.Writer.GUID}, reliable: true}
	}
	o.Writer = &w.Writer
	switch {
	case w.matched: // what is on its way comes first
	case !w.has(o.Seq) && r.waits(w, o, now):
	case !w.has(o.Seq) && !r.deliver(w, o.sample, now):
		r.orphans.turnedAway = append(r.orphans.turnedAway, orphanID(o.Key, o.levels))
	default:
		o.done, o.Body = true, nil
	}
}

// giveRest gives what was turned away once there is room.
func (r *Receiver) giveRest() {
	if r.orphans == nil || len(r.orphans.turnedAway) == 0 || !r.cache.HalfEmpty() {
		return
	}
	again := r.orphans.turnedAway
	r.orphans.turnedAway = nil
	for _, id := range again {
		if o := r.orphans.byID[id]; o != nil && !o.done {
			r.give(o, time.Now())
		}
	}
}

// orphaned gives what a writer that has gone wrote last and we have not heard.
func (r *Receiver) orphaned(w *remoteWriter) {
	if r.orphans == nil || !r.orphans.settled {
		return
	}
	r.giveAll(func(o *Orphan) bool { return o.Writer.GUID == w.GUID })
	if !w.started || len(w.lacks) > 0 { // it has gone without having met us, or not all has come: the rest may still be on its way to the broker
		r.out.Recall()
	}
}

// overtaken reports whether a live sample is one that was given as an orphan, or
// older: its writer, which we had not met or had waited for in vain, was thought to be gone.
func (r *Receiver) overtaken(w *remoteWriter, s *sample) bool {
	o := r.orphans.of(w, s.Key)
	if o == nil || s.Orphan || s.Seq > o.given {
		return false
	}
	if s.Seq < o.given && s.Status == wire.StatusData {
		r.lost(w, 1)
	}
	return true
}

// note follows a sample of which the cache has said why it does not take it, nil if it does:
// what is retained of its writer and key is it, or older than what is live.
func (r *Receiver) note(w *remoteWriter, s *sample, why error) {
	switch o := r.orphans.of(w, s.Key); {
	case o == nil || s.Seq < o.Seq:
	case s.Orphan && why == nil:
		o.given = s.Seq
	case !s.Orphan:
		delete(r.orphans.byID, orphanID(s.Key, o.levels))
	}
}

// of returns what is retained of a writer for a key, nil if that is nothing.
func (o *orphans) of(w *remoteWriter, key string) *Orphan {
	if it := o.byID[orphanID(key, writerLevels(w.GUID))]; it != nil && it.Writer.GUID == w.GUID {
		return it
	}
	return nil
}

// Cleared follows a disposal: the broker has forgotten the value, so do we. But one that was
// given still counts until its writer, should it come back, has repeated it.
func (r *Receiver) Cleared(key, levels string) {
	if r.orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	id := orphanID(key, levels)
	o, w := r.orphans.byID[id], r.writers[levels]
	if o == nil || o.given == 0 || w != nil && (w.GUID != o.Writer.GUID || w.started && w.next > o.given) {
		delete(r.orphans.byID, id)
		return
	}
	o.Seq, o.Body, o.done, o.in = o.given, nil, true, nil
	r.orphans.cleared = append(r.orphans.cleared, id)
	if len(r.orphans.cleared) > maxCleared {
		first := r.orphans.cleared[0]
		r.orphans.cleared = r.orphans.cleared[1:]
		if o := r.orphans.byID[first]; o != nil && len(o.in) == 0 {
			delete(r.orphans.byID, first)
		}
	}
}
