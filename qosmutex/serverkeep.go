package qosmutex

import (
	"context"
	"errors"
	"slices"
	"time"

	"padme/internal/wait"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
)

// keep keeps a topic open until the server or its participant ends, or it turns out that it
// cannot be opened.
func (s *Server) keep(name string, e *servedTopic) {
	for s.ctx.Err() == nil && s.p.Err() == nil {
		t, err := s.openTopic(name, e)
		switch {
		case err == nil:
			s.settled(name)
			s.reweigh(e, time.Duration(t.Status().TTL))
			s.set(e, t, nil)
			l := s.watch(t, e)
			s.set(e, nil, nil)
			closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_ = t.Close(closing)
			if l != nil {
				s.left(name, e, s.afterwards(closing, name, l), l)
			}
			if cancel(); l != nil {
				return
			}
		case s.ctx.Err() != nil:
		case errors.Is(err, ErrInvalidName), errors.Is(err, ErrInvalidConfig), errors.Is(err, ErrConflict):
			s.log.Warn("lock topic not opened", "lock", name, "error", err)
			s.forget(name, e)
			s.set(e, nil, err)
			return
		default:
			s.log.Info("lock topic not opened yet", "lock", name, "error", err)
			wait.Sleep(s.ctx, openAgain)
		}
	}
}

// set says how a topic stands.
func (s *Server) set(e *servedTopic, t *Topic, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.topic, e.failure = t, failure
	close(e.changed)
	e.changed = make(chan struct{})
}

func (s *Server) forget(name string, e *servedTopic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.charge(e.user, -e.weight)
	delete(s.topics, name)
}

// openTopic opens a topic, and creates it if it has no root. Without a register that
// others may share, it looks for a root first: one next to the broker outlives this process.
func (s *Server) openTopic(name string, e *servedTopic) (*Topic, error) {
	create := append(slices.Clone(s.opts), Create())
	if e.ttl > 0 {
		create = append(create, asDefault(WithTiming(timingOf(s.timing.WithTTL(e.ttl)))))
	}
	if s.register != nil {
		if s.alone(name) {
			create = append(create, listened)
		}
		if s.own.Notes() {
			create = append(create, keptIn(s.own))
		}
		return s.openAs(e, name, create...)
	}
	until, err := s.goesOn(name)
	if err != nil {
		return nil, err
	}
	if until != 0 || s.alone(name) {
		silence := func() time.Duration { return s.silence(name, e) }
		return s.openAs(e, name, append(create, WithRegister(ownRegister{s.own, silence, until}))...)
	}
	join := slices.Clone(s.opts)
	if s.own.Notes() {
		join = append(join, keptIn(s.own))
	}
	s.forgetQuestions(e)
	t, err := s.openAs(e, name, join...)
	if err == nil {
		e.sought = time.Time{}
	}
	if errors.Is(err, ErrNoRoot) && !s.leavesTo(e) {
		if s.wasAnswered(e) { // by a root that has died since, or is cut off
			s.forgetQuestions(e)
		}
		fresh := func() time.Duration { return max(s.heardNothing(e), s.silence(name, e)) }
		return s.openAs(e, name, append(create, WithRegister(ownRegister{s.own, fresh, 0}))...)
	}
	return t, err
}

// silence is for how long a topic of which nothing was heard is known to have had no root
// elsewhere: each tells everybody that it is there once in its TTL. One may have done so since
// the server decided to create the topic.
func (s *Server) silence(name string, e *servedTopic) time.Duration {
	s.mu.Lock()
	since, t, other := s.since, e.opening, s.others[name]
	s.mu.Unlock()
	if since.IsZero() || other {
		return 0
	}
	return max(0, time.Since(since)-max(time.Duration(s.timing.TTL), t.longestTTL()))
}

// forgetQuestions has no question count any more that has come back already.
func (s *Server) forgetQuestions(e *servedTopic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.asked = time.Time{}
}

// wasAnswered reports whether anybody has answered the topic that was opened last.
func (s *Server) wasAnswered(e *servedTopic) bool {
	s.mu.Lock()
	t := e.opening
	s.mu.Unlock()
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hadRoot
}

// heardNothing is for how long nobody has answered this server's question for the root of a topic.
func (s *Server) heardNothing(e *servedTopic) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.asked.IsZero() || s.since.IsZero() {
		return 0
	}
	return min(time.Since(e.asked), time.Since(s.since))
}

// watch returns when the server or the topic has ended, or, with whoever asked, when the
// server is to let go of it. A member whose root has died waits
// for another for ever if it cannot be the root itself: there, watch returns when its
// session is over, so that nothing is lost by a new beginning. A root that is not known to
// be dead has slowRoot TTLs more: where a machine is too busy for it, a second root in the
// memory of this process would contend with it, and nothing be granted by either.
func (s *Server) watch(t *Topic, e *servedTopic) *leaving {
	var look <-chan time.Time
	ttl := time.Duration(t.Status().TTL)
	if t.register == nil {
		ticker := time.NewTicker(max(ttl/16, 50*time.Millisecond))
		defer ticker.Stop()
		look = ticker.C
	}
	root, placed := "", time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case <-t.Done():
			return nil
		case l := <-e.leave:
			standby, err := s.mayLeave(t, &l)
			if err != nil {
				l.done <- err
				continue
			}
			if !standby { // else another one goes on telling
				t.vanish()
			}
			return &l
		case now := <-look:
			switch st := t.Status(); {
			case st.Role == protocol.Root, st.Role == protocol.Member:
				root, placed = st.Root.ID, now
			case t.sessionOver() && (s.knownDead(root) || now.Sub(placed) > slowRoot*ttl):
				s.log.Info("lock topic without a root: opening it again", "lock", t.name)
				return nil
			}
		}
	}
}

// sessionOver reports whether nothing that the topic holds is valid any more.
func (t *Topic) sessionOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clock() >= t.validUntil
}

// knownDead reports whether the broker has said that a participant has ended.
func (s *Server) knownDead(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[id]
}

// leavesTo reports whether a topic that has no root is left to another server, which
// creates it in a register that outlives this process: a second root would contend with
// that one. But not for ever: after a power failure a broker may have the presence of one
// that has ended.
func (s *Server) leavesTo(e *servedTopic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := false
	for _, creates := range s.serving {
		others = others || creates
	}
	if e.sought.IsZero() {
		e.sought = time.Now()
	}
	return others && time.Since(e.sought) < slowRoot*time.Duration(s.timing.TTL)
}

// followPresences notes which participants have ended and which serve, as far as the broker tells.
func (s *Server) followPresences() {
	for presence, err := range s.p.Peers(s.ctx) {
		if err != nil {
			s.log.Info("who has ended and who serves is not known", "error", err)
			s.mu.Lock()
			s.blind = true
			s.mu.Unlock()
			return
		}
		s.mu.Lock()
		if presence.Alive && presence.UserData[jsonlock.ServesKey] == jsonlock.ServesLocks && presence.ID != s.p.ID() {
			s.serving[presence.ID] = presence.UserData[jsonlock.CreatesKey] == jsonlock.ServesLocks
		} else {
			delete(s.serving, presence.ID)
		}
		if presence.Alive {
			delete(s.dead, presence.ID)
		} else if len(s.dead) < maxNodes {
			s.dead[presence.ID] = true
		}
		s.mu.Unlock()
	}
}
