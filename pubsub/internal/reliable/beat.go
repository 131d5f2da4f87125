package reliable

import (
	"time"

	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

const (
	// minBeat and maxBeat bound the time between heartbeats to a reader which
	// has not acknowledged everything, or that it knows where it begins.
	minBeat = 100 * time.Millisecond
	maxBeat = time.Second
	// maxPause bounds how long the next sample of a writer is waited for before readers are
	// asked whether they have the last one. Until then the next asks by itself: a reader
	// that lacks one before it says so.
	maxPause = 10 * time.Second
)

// learnPause learns how long the pauses between samples are: for a burst that follows a pause,
// it forgets that by a 32nd with each sample, a few hundred in all.
func (s *Sender) learnPause(now time.Time) {
	s.pause -= s.pause / 32
	if !s.writtenAt.IsZero() {
		s.pause = max(s.pause, min(now.Sub(s.writtenAt), maxPause))
	}
	s.writtenAt = now
}

// overdue is how long after a sample the next one is so late that readers are asked.
func (s *Sender) overdue() time.Duration { return min(max(4*s.pause, minBeat), maxPause) }

// awaitAck has a reader asked when nothing is written for a while.
func (s *Sender) awaitAck(r *remoteReader, now time.Time) {
	if s.getsOn(r, now) {
		r.beat, r.interval = now.Add(s.overdue()), minBeat
	} else if due := now.Add(minBeat); r.beat.IsZero() || r.beat.After(due) {
		r.beat, r.interval = due, minBeat
	}
}

// getsOn reports whether a reader is taken to acknowledge by itself: see ackWindow.
func (s *Sender) getsOn(r *remoteReader, now time.Time) bool {
	return !s.closing && r.confirmed && !r.crowded && r.burst.last == 0 && r.waits.IsZero() && (r.asked.IsZero() || now.Sub(r.asked) < maxBeat)
}

func (s *Sender) heartbeat(g wire.GUID, r *remoteReader, now time.Time) {
	first, last := s.extent(r)
	s.send(g, &wire.Repair{Op: wire.OpHeartbeat, A: first, B: last, C: r.base, Key: r.called()})
	if r.beat = now.Add(r.interval); r.asked.IsZero() {
		r.asked = now
	}
	r.interval = min(2*r.interval, maxBeat)
}

func (s *Sender) beatNow() {
	now := time.Now()
	for g, r := range s.readers {
		if r.reliable && s.reached(r) < s.seq && r.gone.IsZero() {
			s.heartbeat(g, r, now)
		}
	}
}

// beatWhereNeeded asks those who do not acknowledge by themselves, or too rarely for a
// history of this size.
func (s *Sender) beatWhereNeeded(now time.Time) {
	for g, r := range s.readers {
		if r.reliable && s.reached(r) < s.seq && r.gone.IsZero() && (s.qos.MaxSamples < 2*ackWindow || !s.getsOn(r, now)) {
			s.heartbeat(g, r, now)
		}
	}
}

// Tick sends the heartbeats that are due and reports when it wants to be called
// again; zero for not until something happens.
func (s *Sender) Tick(now time.Time) (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.until = next }()
	next = s.refresh(now)
	for g, r := range s.readers {
		due := r.beat
		switch {
		case !r.gone.IsZero() && now.Sub(r.gone) > goneFor:
			s.giveUpOn(g, r)
			s.drop(g)
			s.happened()
			continue
		case !r.gone.IsZero():
			due = r.gone.Add(goneFor + time.Millisecond)
		case r.confirmed && (!r.reliable || r.greeted && s.reached(r) >= s.seq):
			continue
		case !now.Before(r.beat) && s.getsOn(r, now) && s.sending():
			r.beat = now.Add(minBeat)
			due = r.beat
		case !now.Before(r.beat):
			r.burst.await(now)
			s.heartbeat(g, r, now)
			due = r.beat
		}
		next = timing.Earliest(next, due)
	}
	return timing.Earliest(next, s.tickTime(now))
}

// sending reports whether the last sample is still on its way to the broker.
func (s *Sender) sending() bool {
	h := s.held[s.seq]
	return h != nil && h.place > s.out.Passed()
}

// tickTime does what the policies of time make due at a writer, and reports when
// the next of it will be.
func (s *Sender) tickTime(now time.Time) (next time.Time) {
	next = timing.Earliest(s.deadlinesMissed(now), s.expire(now))
	return timing.Earliest(next, s.stayAlive(now))
}
