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

// mostFor is how many samples may be held for one more to be held. Changes of state may be when
// there is no room for data: that an instance is over is what makes room.
func (s *Sender) mostFor(what wire.Status) int {
	if what == wire.StatusData {
		return s.qos.MaxSamples
	}
	return 2 * s.qos.MaxSamples
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
	h := &heldSample{key: key, payload: payload, buffer: buffer, place: s.out.Placed(), over: s.ends(key, what)}
	s.held[s.seq] = h
	if !s.qos.KeepAll || s.qos.Historic {
		numbers := append(s.history[key], s.seq)
		for !s.qos.KeepAll && len(numbers) > s.qos.Depth {
			s.free(s.held[numbers[0]])
			delete(s.held, numbers[0])
			numbers = numbers[1:]
		}
		s.history[key] = numbers
		if n := len(numbers); s.qos.DurabilityService > 0 && n > s.qos.DurabilityService {
			if s.surplus = append(s.surplus, numbers[n-1-s.qos.DurabilityService]); len(s.surplus) > 2*len(s.held)+64 {
				s.surplus = slices.DeleteFunc(s.surplus, func(seq uint64) bool { return s.held[seq] == nil })
			}
			s.forgetSurplus()
		}
	}
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
		numbers := s.history[key]
		return len(numbers) == 0 || s.held[numbers[len(numbers)-1]].over
	}
	return true
}

// isOver follows a sample that ends an instance.
func (s *Sender) isOver() {
	if s.over = append(s.over, s.seq); len(s.over) > 2*len(s.held)+64 {
		s.over = slices.DeleteFunc(s.over, func(seq uint64) bool { return s.held[seq] == nil })
	}
}

// forgetOver makes room for a sample by forgetting instances that are over, as every
// reader has heard. Until then late joiners hear of it.
func (s *Sender) forgetOver(most int) {
	acked := s.acked()
	for ; len(s.held) >= most && len(s.over) > 0 && s.over[0] <= acked; s.over = s.over[1:] {
		last := s.over[0]
		h := s.held[last]
		if h == nil {
			continue
		}
		for n := s.history[h.key]; len(n) > 0 && n[0] <= last; n = s.history[h.key] {
			s.release(n[0])
		}
	}
	s.raise()
}

// forgetOldest makes room for a sample of a writer that does not block.
func (s *Sender) forgetOldest() {
	for !s.qos.Reliable && len(s.held) >= s.qos.MaxSamples {
		s.release(s.low)
		s.raise()
	}
}

// forgetSurplus forgets what is not for late joiners once every reader has it.
func (s *Sender) forgetSurplus() {
	for acked := s.acked(); len(s.surplus) > 0 && s.surplus[0] <= acked; s.surplus = s.surplus[1:] {
		s.release(s.surplus[0])
	}
	s.raise()
}

// hasRoom reports whether one more sample can be held, should the instance give up what it can.
func (s *Sender) hasRoom(key string, what wire.Status) bool {
	most := s.mostFor(what)
	if len(s.held) < most {
		return true
	}
	s.forgetOver(most)
	s.forgetOldest()
	return len(s.held) < most || s.canSpare(key)
}

// canSpare reports whether one more sample makes an older one of the instance surplus.
func (s *Sender) canSpare(key string) bool {
	n := s.history[key]
	return s.qos.DurabilityService > 0 && len(n) >= s.qos.DurabilityService && n[0] <= s.acked()
}

// makeWay forgets that if there is no other room.
func (s *Sender) makeWay(key string, what wire.Status) {
	if len(s.held) < s.mostFor(what) {
		return
	}
	for s.canSpare(key) {
		s.release(s.history[key][0])
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
	if numbers := s.history[h.key]; len(numbers) > 0 {
		if i := slices.Index(numbers, seq); i >= 0 {
			numbers = slices.Delete(numbers, i, i+1)
		}
		if s.history[h.key] = numbers; len(numbers) == 0 {
			delete(s.history, h.key)
		}
	}
}

// Held is how many samples are held.
func (s *Sender) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}
