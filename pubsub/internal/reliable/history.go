package reliable

import (
	"slices"
	"time"

	"padme/pubsub/internal/wire"
)

// wakeIfDue has tick called if something is due before it would be.
func (s *Sender) wakeIfDue() {
	if s.deadlines.Period > 0 || s.qos.Lifespan > 0 || s.life.Assertion != nil || s.retention != nil {
		s.out.Wake()
		return
	}
	for _, r := range s.readers {
		if r.reliable && r.gone.IsZero() && s.reached(r) < s.seq && (s.until.IsZero() || r.beat.Before(s.until)) {
			s.out.Wake()
			return
		}
	}
}

// askForRoom asks for acknowledgements because the history is full: at once after some of
// it has moved, else now and then. A reader acknowledges at once and again when it has
// all that it was told of, so asking for every step would be for nothing; and one that
// is full too answers each heartbeat with the same acknowledgement, which wakes Write,
// which asks again.
func (s *Sender) askForRoom(now time.Time) {
	if s.low > s.askedLow+uint64(s.qos.MaxSamples/8) || now.Sub(s.askedAt) >= minBeat {
		s.askedLow, s.askedAt = s.low, now
		s.out.SendNow()
		s.beatWhereNeeded(now)
	}
}

func (s *Sender) hold(key string, payload []byte, buffer *wire.Buffer, what wire.Status) {
	h := &heldSample{key: key, payload: payload, buffer: buffer, place: s.out.Placed(), status: what, over: s.ends(key, what)}
	s.held[s.seq] = h
	if what == wire.StatusData {
		s.data++
	}
	if !s.qos.KeepAll || s.qos.Historic {
		s.enter(key, what)
	}
	if len(s.surplus) > 2*len(s.held)+64 {
		s.surplus = slices.DeleteFunc(s.surplus, func(seq uint64) bool { return s.held[seq] == nil })
	}
	s.forgetSurplus()
	if h.over {
		s.isOver()
	}
	s.raise()
	now := time.Now()
	s.learnPause(now)
	for _, r := range s.readers {
		if r.reliable {
			s.awaitAck(r, now)
		}
	}
	if n := len(s.held); n == s.qos.MaxSamples/2 || n == s.qos.MaxSamples*3/4 {
		s.beatWhereNeeded(now)
	}
}

// raise moves low over what is not held any more.
func (s *Sender) raise() {
	for s.low <= s.seq && s.held[s.low] == nil {
		s.low++
	}
}

// ends reports whether late joiners want nothing more of an instance. The last value
// of a Transient one outlives its unregistration.
func (s *Sender) ends(key string, what wire.Status) bool {
	switch {
	case !s.qos.Historic || what == wire.StatusData:
		return false
	case what == wire.StatusUnregister && s.qos.Transient:
		i := s.ofInstance(key)
		last := len(i.states) - 1
		return len(i.data) == 0 || last >= 0 && i.states[last] > i.data[len(i.data)-1] && s.held[i.states[last]].over
	}
	return true
}

// isOver follows a sample that ends an instance.
func (s *Sender) isOver() {
	if s.over = append(s.over, s.seq); len(s.over) > 2*len(s.held)+64 {
		s.over = slices.DeleteFunc(s.over, func(seq uint64) bool { return s.held[seq] == nil })
	}
}

// room reports whether one more sample may be held, and forgets for it what may go.
func (s *Sender) room(key string, what wire.Status) bool {
	if !s.full(what) {
		return true
	}
	s.forgetOver(what)
	s.forgetOldest(what)
	if what == wire.StatusData {
		s.makeWay(key)
	}
	return !s.full(what)
}

// forgetOver makes room for a sample by forgetting instances that are over, as every
// reader has heard. Until then late joiners hear of it.
func (s *Sender) forgetOver(what wire.Status) {
	acked := s.acked()
	for ; s.full(what) && len(s.over) > 0 && s.over[0] <= acked; s.over = s.over[1:] {
		last := s.over[0]
		if s.held[last] == nil {
			continue
		}
		i := s.history[s.held[last].key]
		for _, seq := range slices.Concat(i.data, i.states) {
			if seq <= last {
				s.release(seq)
			}
		}
	}
	s.raise()
}

// forgetOldest makes room for a sample of a writer that does not block.
func (s *Sender) forgetOldest(what wire.Status) {
	for !s.qos.Reliable && s.full(what) {
		s.release(s.low)
		s.raise()
	}
}

// forgetSurplus forgets what is not for late joiners once every reader has it.
func (s *Sender) forgetSurplus() {
	if len(s.surplus) == 0 {
		return
	}
	for acked := s.acked(); len(s.surplus) > 0 && s.surplus[0] <= acked; s.surplus = s.surplus[1:] {
		s.release(s.surplus[0])
	}
	s.raise()
}

// makeWay forgets what a sample about to be written makes surplus.
func (s *Sender) makeWay(key string) {
	acked := s.acked()
	for i := s.ofInstance(key); s.qos.Late > 0 && len(i.data) >= s.qos.Late && i.data[0] <= acked; {
		s.release(i.data[0])
	}
	s.raise()
}

// trim forgets what every reader has, unless late joiners want it.
func (s *Sender) trim() {
	if s.qos.Historic {
		s.forgetSurplus()
		return
	}
	for acked := s.acked(); s.low <= acked; s.low++ {
		s.release(s.low)
	}
	s.raise()
}

// acked is up to where every reliable reader has everything.
func (s *Sender) acked() uint64 {
	acked := s.seq
	for _, r := range s.readers {
		if r.reliable {
			acked = min(acked, s.reached(r))
		}
	}
	return acked
}

// release forgets one sample.
func (s *Sender) release(seq uint64) {
	h := s.held[seq]
	if h == nil {
		return
	}
	s.free(h)
	delete(s.held, seq)
	if h.status == wire.StatusData {
		s.data--
	}
	if i := s.history[h.key]; i != nil && i.remove(h.status, seq) {
		delete(s.history, h.key)
	}
}

// Held is how many samples are held.
func (s *Sender) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}
