package reliable

import (
	"slices"
	"time"

	"padme/pubsub/internal/wire"
)

// Transient durability: the broker retains the last value of each instance by
// each writer. While the writer lives, its own history serves late joiners, as
// with transient-local, and what is retained is not looked at. Once it is gone, the
// retained value is what there is. A reader gets it before anything live, marked
// as of an instance without writers, and not again. A reader that knows the writer
// and lacks what was before the value waits for the writer a moment; see comeback.

// retention is what a transient writer has the broker keep.
type retention struct {
	last    map[string]retained // by key
	dirty   map[string]struct{} // keys that the broker may not have as in last
	cleared []retained          // oldest first; forgotten once it cannot be lost any more

	leaving []spot            // to be cleared: the writer has moved away, or disposed of what others had left
	left    []spot            // cleared, as cleared is
	others  map[spot]struct{} // of both, those where others had left something
}

// spot is where a value is retained: by the writer itself, or by one that is named.
type spot struct{ partition, key, of string }

type retained struct {
	key     string
	seq     uint64
	payload []byte // empty: disposed
}

func newRetention() *retention {
	return &retention{last: map[string]retained{}, dirty: map[string]struct{}{}, others: map[spot]struct{}{}}
}

// publish publishes a sample in one partition.
func (s *Sender) publish(partition, key string, payload []byte) error {
	return s.out.Publish(partition, key, payload, s.sharing)
}

// distribute publishes a sample.
func (s *Sender) distribute(key string, payload []byte, e *wire.Envelope) error {
	if s.retention != nil && e.Options.Status == wire.StatusData {
		return s.retain(key, payload)
	}
	_, err := s.toAll(s.publish, key, payload)
	return err
}

// toAll publishes in each partition of the writer. It fails only if nobody gets it: what
// is missing in one of them, so that not all have it, is repaired, or lost as best effort
// may be.
func (s *Sender) toAll(put func(partition, key string, payload []byte) error, key string, payload []byte) (all bool, err error) {
	sent := false
	for _, p := range s.partitions {
		if e := put(p, key, payload); e == nil {
			sent = true
		} else if err == nil {
			err = e
		}
	}
	if all = err == nil; sent {
		err = nil
	}
	return all, err
}

// retain fails if no partition has it; if only some lack it, that is repaired later.
func (s *Sender) retain(key string, payload []byte) error {
	delete(s.retention.dirty, key)
	all, err := s.toAll(s.out.Retain, key, payload)
	if !all {
		s.retention.dirty[key] = struct{}{}
	}
	return err
}

// distributed follows what a writer has written.
func (s *Sender) distributed(key string, payload []byte, e *wire.Envelope) {
	if s.retention == nil {
		return
	}
	switch e.Options.Status {
	case wire.StatusData:
		s.retention.last[key] = retained{key, s.seq, payload}
	case wire.StatusDispose:
		s.retention.last[key] = retained{key: key, seq: s.seq}
		s.clear(key)
		s.clearEarlier(key)
	}
}

// clearEarlier has the broker forget what writers of earlier incarnations have left of an
// instance.
func (s *Sender) clearEarlier(key string) {
	t := s.retention
	for _, partition := range s.partitions {
		for _, name := range s.out.Left(partition, key) {
			at := spot{partition, key, name}
			if _, known := t.others[at]; !known && name != s.name { // that is cleared
				t.others[at] = struct{}{}
				t.leaving = append(t.leaving, at)
			}
		}
	}
	s.clearLeft() // if not, then later
}

// clear has the broker forget an instance.
func (s *Sender) clear(key string) {
	if s.retain(key, nil) != nil {
		return
	}
	t := s.retention
	t.cleared = append(t.cleared, t.last[key])
	for ; len(t.cleared) > s.out.MaxLost; t.cleared = t.cleared[1:] {
		if old := t.cleared[0]; t.last[old.key].seq == old.seq {
			delete(t.last, old.key)
		}
	}
}

// outlived has the broker forget what a lifespan has ended, if nothing newer took
// its place.
func (s *Sender) outlived(key string, seq uint64) {
	if s.retention != nil && s.retention.last[key].seq == seq {
		s.retention.last[key] = retained{key: key, seq: seq}
		s.clear(key)
	}
}

// Stale follows a reconnection: what was under way is lost, and the broker may
// have lost its memory.
func (s *Sender) Stale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		r.interval, r.doubts = minBeat, 0
		r.burst.lose()
	}
	s.beatNow()
	if t := s.retention; t != nil {
		for key := range t.last {
			t.dirty[key] = struct{}{}
		}
		t.leaving, t.left = append(t.left, t.leaving...), nil
	}
}

// moveTo follows the partitions of the writer. It has the broker keep in those that are
// new what it is to keep, and then forget that in those which are left.
func (s *Sender) moveTo(levels []string) {
	from := s.partitions
	s.partitions = levels
	t := s.retention
	if t == nil || slices.Equal(from, levels) {
		return
	}
	isHere := func(at spot) bool { return at.of == "" && slices.Contains(levels, at.partition) }
	t.leaving, t.left = slices.DeleteFunc(t.leaving, isHere), slices.DeleteFunc(t.left, isHere)
	for key := range t.last {
		t.dirty[key] = struct{}{}
		for _, level := range from {
			if at := (spot{level, key, ""}); !isHere(at) {
				t.leaving = append(t.leaving, at)
			}
		}
	}
}

// clearLeft reports false if it must be called again.
func (s *Sender) clearLeft() bool {
	t := s.retention
	for ; len(t.leaving) > 0; t.leaving = t.leaving[1:] {
		if s.vacate(t.leaving[0]) != nil {
			return false
		}
		t.left = append(t.left, t.leaving[0])
	}
	for ; len(t.left) > s.out.MaxLost; t.left = t.left[1:] {
		if at := t.left[0]; at.of != "" {
			delete(t.others, at)
			s.out.Cleared(at.partition, at.key, at.of)
		}
	}
	return true
}

func (s *Sender) vacate(at spot) error {
	if at.of == "" {
		return s.out.Retain(at.partition, at.key, nil)
	}
	return s.out.Clear(at.partition, at.key, at.of)
}

// refresh has the broker keep what it may have lost. It returns when to go on,
// zero for not until something happens.
func (s *Sender) refresh(now time.Time) (next time.Time) {
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
	if !s.clearLeft() {
		return now.Add(minBeat)
	}
	return time.Time{}
}
