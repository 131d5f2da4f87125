package reliable

import (
	"sync"
	"time"

	"padme/pubsub/internal/wire"
)

// A match that a change of policies has ended is over for good: another one with the same
// peer begins as with a stranger. Of a writer that moves away a reader takes what is on
// its way, as of one that was closed.

// maxEnded bounds the closed writers that a participant remembers, and the readers that a
// writer does.
const maxEnded = 4096

// Adapt follows the application, which has changed what can be.
func (s *Sender) Adapt(p Policies) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); p.Deadline != s.qos.Deadline {
		s.deadlines.Restart(p.Deadline, now)
	}
	s.qos.change(&p)
	s.gather()
	for g, r := range s.readers {
		if !r.gone.IsZero() { // it may be back, and not match
			s.remember(g, r)
		}
	}
	s.moveTo(p.Partitions.Published(s.places))
}

// Updated follows a reader that still matches: it has changed its policies, or is back on
// another connection.
func (s *Sender) Updated(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.readers[p.GUID]; r != nil {
		again := p.Epoch != r.epoch
		r.partitions, r.epoch, r.change = p.Partitions, p.Epoch, p.Change
		s.repartition()
		if again {
			s.retell(p.GUID, r)
		}
	}
}

// Parted ends a match. If that was ours to do, the reader is told which sample is its
// last: what we say and what we write take different connections.
func (s *Sender) Parted(g wire.GUID, ours bool) {
	if s.parts(g, ours) {
		s.Unmatched(g, false)
	}
}

func (s *Sender) parts(g wire.GUID, ours bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[g]
	switch {
	case r == nil:
		return false
	case !r.gone.IsZero(): // it is back, and has been told of as unmatched
		s.drop(g)
		s.happened()
		return false
	case ours:
		s.remember(g, r)
		first, last := s.extent(r)
		s.send(g, &wire.Repair{Op: wire.OpEnd, A: first, B: last, C: r.base, Key: r.called()})
	}
	return true
}

// farewell is what a reader is told that a change of policies has left.
type farewell struct {
	last  uint64 // sample that it gets
	match string
}

// remember notes the farewell of a reader, for when it was away or does not hear it.
func (s *Sender) remember(g wire.GUID, r *remoteReader) {
	if _, known := s.left[g]; known || !r.reliable {
		return
	}
	for other := range s.left {
		if len(s.left) < maxEnded {
			break
		}
		delete(s.left, other)
	}
	_, last := s.extent(r)
	s.left[g] = farewell{last, r.match}
}

// answerForLeft tells a reader that asks again which sample was its last.
func (s *Sender) answerForLeft(from wire.GUID, m *wire.Repair) {
	f, known := s.left[from]
	if !known || m.Key != f.match || m.A >= f.last {
		return
	}
	if r := s.readers[from]; r != nil && s.qos.Partitions.Meets(r.partitions) {
		return // it is coming back
	}
	s.send(from, &wire.Repair{Op: wire.OpEnd, A: f.last + 1, B: f.last, C: f.last, Key: f.match})
}

// An Ending is how a writer ended.
type Ending struct {
	Last    uint64 // its last sample; 0 if readers that are away lack nothing
	Lacking bool   // some reader that is away may lack what is before that
}

// End tells readers which sample is the last.
func (s *Sender) End() Ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	lacking := false
	for _, reached := range s.behind {
		lacking = lacking || reached < s.seq
	}
	for g, r := range s.readers {
		first, last := s.extent(r)
		s.send(g, &wire.Repair{Op: wire.OpEnd, A: first, B: last, C: r.base})
		lacking = lacking || r.reliable && s.reached(r) < s.seq
	}
	if !s.qos.Reliable || s.seq == 0 {
		return Ending{}
	}
	return Ending{s.seq, lacking}
}

// giveUpOn notes where a reader is that is not waited for any more: it may come back when this
// writer is closed.
func (s *Sender) giveUpOn(g wire.GUID, r *remoteReader) {
	if !r.reliable {
		return
	}
	for other := range s.behind {
		if len(s.behind) < maxEnded {
			break
		}
		delete(s.behind, other)
	}
	s.behind[g] = s.reached(r)
}

// isBack forgets that a reader was given up, or one of an earlier process of its participant.
func (s *Sender) isBack(g wire.GUID) {
	for o := range s.behind {
		if o == g || o.Participant == g.Participant && o.Incarnation < g.Incarnation {
			delete(s.behind, o)
		}
	}
}

// EndedBefore is the word of a participant that has closed: what the last sample of a writer
// was, of which more may have been written while we were away. That says nothing of what the
// broker has retained, nor of one instance.
func (r *Receiver) EndedBefore(g wire.GUID, last uint64) {
	r.mu.Lock()
	defer r.unlock()
	w := r.writers[writerLevels(g)]
	if r.orphans != nil || r.narrow || w == nil || w.GUID != g || !w.accepted() || !w.reliable || !w.started || last < w.last || last > maxSeq || !w.ends(last, 0) {
		return
	}
	w.last = last
}

// Ended remembers the last samples of writers that are closed, by name, for readers that
// are away. The zero value is ready.
type Ended struct {
	mu   sync.Mutex
	last map[string]Ending
}

// Remember notes that of a writer.
func (e *Ended) Remember(name string, end Ending) {
	if end.Last == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for other := range e.last {
		if len(e.last) < maxEnded {
			break
		}
		delete(e.last, other)
	}
	if e.last == nil {
		e.last = map[string]Ending{}
	}
	e.last[name] = end
}

// Lacking are the last samples of the writers, by name, that left readers behind: n of them.
func (e *Ended) Lacking(n int) map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	some := map[string]uint64{}
	for name, end := range e.last {
		if end.Lacking && len(some) < n {
			some[name] = end.Last
		}
	}
	return some
}

// Answer is for a reader that was away, nil if it lacks nothing.
func (e *Ended) Answer(from wire.GUID, m *wire.Repair) *wire.Repair {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last[m.To].Last
	if m.Op != wire.OpAck || m.A >= last {
		return nil
	}
	return &wire.Repair{Op: wire.OpEnd, From: m.To, To: m.From, Incarnation: from.Incarnation, A: last + 1, B: last, C: last}
}
