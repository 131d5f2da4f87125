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

// maxOrphans bounds the retained samples that one reader remembers.
const maxOrphans = 1 << 16

var errOrphans = errors.New("pubsub: too many samples of writers that are gone")

// orphans are the retained samples that a transient reader knows of.
type orphans struct {
	settled    bool // it is known which writers live
	byID       map[string]*Orphan
	turnedAway []string // ids of those that found no room
}

// Orphan is what the broker has retained of a writer.
type Orphan struct {
	sample
	levels string   // of the writer
	in     []string // partitions where it is retained
	given  bool     // or not to be given; the body is gone
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

// giveAll gives those which are wanted in the order in which they were written.
func (r *Receiver) giveAll(wanted func(*Orphan) bool) {
	var all []*Orphan
	for _, o := range r.orphans.byID {
		if !o.given && wanted(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *Orphan) int {
		return cmp.Or(a.Compare(&b.Sample), strings.Compare(a.Key, b.Key))
	})
	now := time.Now()
	for _, o := range all {
		r.give(o, now)
	}
}

func (r *Receiver) give(o *Orphan, now time.Time) {
	w := r.writers[o.levels]
	if w == nil || w.GUID != o.Writer.GUID {
		w = &remoteWriter{Writer: cache.Writer{GUID: o.Writer.GUID}, reliable: true}
	}
	o.Writer = &w.Writer
	if !r.deliver(w, o.sample, now) {
		r.orphans.turnedAway = append(r.orphans.turnedAway, orphanID(o.Key, o.levels))
		return
	}
	o.given, o.Body = true, nil
}

// giveRest gives what was turned away once there is room.
func (r *Receiver) giveRest() {
	if r.orphans == nil || len(r.orphans.turnedAway) == 0 || !r.cache.HalfEmpty() {
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
func (r *Receiver) orphaned(w *remoteWriter) {
	if r.orphans == nil || !r.orphans.settled {
		return
	}
	r.giveAll(func(o *Orphan) bool { return o.Writer.GUID == w.GUID && !w.has(o.Seq) })
	if !w.started || len(w.lacks) > 0 { // it has gone without having met us, or not all has come: the rest may still be on its way to the broker
		r.out.Recall()
	}
}

// repeated reports whether a live sample is one that was given as an orphan, or
// older: its writer was thought to be gone.
func (r *Receiver) repeated(w *remoteWriter, s *sample) bool {
	if s.Orphan {
		return false
	}
	o := r.orphans.byID[orphanID(s.Key, writerLevels(w.GUID))]
	return o != nil && o.Writer.GUID == w.GUID && o.given && s.Seq <= o.Seq
}

// outdated forgets what is retained of a writer of which newer is received.
func (r *Receiver) outdated(w *remoteWriter, s *sample) {
	id := orphanID(s.Key, writerLevels(w.GUID))
	if o := r.orphans.byID[id]; o != nil && !s.Orphan && o.Writer.GUID == w.GUID && s.Seq >= o.Seq {
		delete(r.orphans.byID, id)
	}
}

// Cleared follows a disposal: the broker has forgotten the value, so do we.
func (r *Receiver) Cleared(key, levels string) {
	if r.orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	delete(r.orphans.byID, orphanID(key, levels))
}
