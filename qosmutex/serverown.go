package qosmutex

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// A server without WithRegister is the only one that knows what it granted, and others may
// create its topics elsewhere while it is not there. So what it noted counts for its next
// process only if nobody else was the root in between. Whoever was may let somebody in once all
// that this one granted is over, a TTL after its last sign of life; and what the broker retains of
// the last root names it then.

// KeepIn has a Server keep the topics that it creates without WithRegister in r, a register in
// a file, in place of its memory: the next process at the same place goes on as the root, at
// once and with its members, and with Resume with its holds. It is not for registers that
// others have, too. The caller closes r after the server.
func KeepIn(r *local.Register) Option {
	return func(o *options) error {
		o.own = r
		if r == nil {
			return fmt.Errorf("%w: the register is nil", ErrInvalidConfig)
		}
		return nil
	}
}

const (
	// viewWithin is how long the broker may take to tell of the last root, once it was asked.
	viewWithin = 500 * time.Millisecond
	// viewSettles is for how long another root's word may be on its way when it began just now.
	viewSettles = 10 * flushAfter
	// livesEvery is the pause between two signs of life, as a part of the TTL.
	livesEvery = 12
)

// giveSignsOfLife tells the next process until when this one may have granted something, once
// nothing that was noted before it began counts any more.
func (s *Server) giveSignsOfLife() {
	if !s.settleNotes() {
		return
	}
	give := func() {
		if err := s.own.Live(time.Duration(s.clock())); err != nil {
			s.log.Warn("a restart will cost clients their holds", "error", err)
		}
	}
	give()
	ticker := time.NewTicker(max(time.Duration(s.timing.TTL)/livesEvery, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			give()
		case <-s.ctx.Done():
			return
		}
	}
}

// settleNotes returns true once each topic of the process before was opened, or its notes are
// forgotten; false: the server has ended.
func (s *Server) settleNotes() bool {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for begun := time.Now(); ; {
		s.mu.Lock()
		left := slices.Collect(maps.Keys(s.before))
		if len(left) > 0 && time.Since(begun) >= time.Duration(s.timing.TTL) {
			clear(s.before)
			s.mu.Unlock()
			for _, name := range left {
				s.forgetNotes(name)
			}
			return true
		}
		s.mu.Unlock()
		if len(left) == 0 {
			return true
		}
		select {
		case <-look.C:
		case <-s.ctx.Done():
			return false
		}
	}
}

// forgetNotes has nothing count any more that was noted of a topic.
func (s *Server) forgetNotes(name string) {
	if err := s.own.Forget(recordKey(s.p.Root(), name)); err != nil {
		s.log.Warn("a restart will cost clients their holds", "error", err)
	}
}

// ownRegister is the register of a server that has none in common with others. A topic of
// which it has no record may have had a root elsewhere, so its age is for how long that is
// known not to be so.
type ownRegister struct {
	*local.Register
	age    func() time.Duration
	counts bool // what is noted in it
}

// Age implements [register.Register].
func (r ownRegister) Age() time.Duration { return r.age() }

// Members implements placed.
func (r ownRegister) Members(key string) (all []string, ok bool) {
	if !r.counts {
		return nil, false
	}
	return r.Register.Members(key)
}

// Held implements placed.
func (r ownRegister) Held(key string) (held []local.Hold, term uint64) {
	if held, term = r.Register.Held(key); !r.counts {
		term = 0
	}
	return held, term
}

// kept is where processes before this one noted who may hold; nil: nowhere.
func (s *Server) kept() placed {
	if s.register == nil {
		return s.own
	}
	p, _ := s.register.(placed)
	return p
}

// keptBefore names the topics of which an earlier process has left notes.
func (s *Server) keptBefore() map[string]bool {
	before := map[string]bool{}
	if s.register != nil {
		return before
	}
	for _, key := range s.own.Noted() {
		if name, ok := strings.CutPrefix(key, recordKey(s.p.Root(), "")); ok {
			before[name] = true
		}
	}
	return before
}

// goesOn reports whether this process can go on where the one before it, with the same register
// of its own, ended as the last root of a topic. It says so once, before the topic is opened. If
// not, nothing of what was noted counts any more, for later processes neither.
func (s *Server) goesOn(name string) bool {
	s.mu.Lock()
	before := s.before[name]
	s.mu.Unlock()
	goesOn := before && s.wasLastRoot(name, recordKey(s.p.Root(), name))
	if !goesOn {
		s.forgetNotes(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.before, name)
	return goesOn
}

// wasLastRoot reports whether the last root of a topic was a process with this register, and nobody
// else can have let anybody in yet. The very last one may have ended before it told the broker.
func (s *Server) wasLastRoot(name, key string) bool {
	e, err := s.own.Get(s.ctx, key)
	if err != nil || e.Version.Counter == 0 {
		return false
	}
	r, err := protocol.DecodeRecord(e.Value)
	if err != nil {
		return false
	}
	return s.soonAfter(r.TTL) && slices.Contains(s.own.Terms(key), s.lastRoot(name)) && s.soonAfter(r.TTL)
}

// soonAfter reports whether less than a TTL has passed since the last sign of life of the process
// before this one, by any clock.
func (s *Server) soonAfter(ttl protocol.Duration) bool {
	last, ok := s.own.Lived()
	return ok && time.Duration(s.clock())-last < time.Duration(float64(ttl)*(1-2*s.timing.Drift))
}

// lastRoot is the term of the last root of a topic, by what the broker retains of it; 0 if that is
// not known.
func (s *Server) lastRoot(name string) (term uint64) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Duration(s.timing.TTL))
	defer cancel()
	said := make(chan uint64, 1) // the newest
	stop, err := s.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", name, "view"}, func(m pubsub.RawMessage) {
		var v View
		_ = json.Unmarshal(m.Payload, &v) // else none is known
		number, _, _ := strings.Cut(v.Epoch, ".")
		term, _ := strconv.ParseUint(number, 10, 64)
		select {
		case <-said:
		default:
		}
		said <- term
	})
	if err != nil {
		return 0
	}
	defer stop()
	select {
	case term = <-said:
	case <-time.After(viewWithin):
		return 0
	case <-ctx.Done():
		return 0
	}
	pause(ctx, viewSettles)
	select {
	case term = <-said:
	default:
	}
	return term
}

// HoldsAsRoot reports whether this participant is the root wherever it holds something for others,
// and so of the lock topic of servers, or of one in which it holds something. Whoever is about to
// end a server that keeps its topics in a file (KeepIn) can then end its participant first, so that
// it ends as in a crash: the next process goes on with everything, while no other participant can
// be handed anything over.
func (s *Server) HoldsAsRoot() bool {
	if s.made() != nil {
		return false
	}
	open := map[string]*Topic{}
	s.mu.Lock()
	for name, e := range s.topics {
		if e.topic != nil {
			open[name] = e.topic
		}
	}
	s.mu.Unlock()
	asRoot := false
	for name, t := range open {
		switch root, used := t.rootAndUsed(); {
		case root && (used || name == servedBy):
			asRoot = true
		case !root && used && name != servedBy:
			return false
		}
	}
	return asRoot
}

// rootAndUsed reports whether this participant is the root, and whether it holds or waits for
// something.
func (t *Topic) rootAndUsed() (root, used bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status.Role == protocol.Root, len(t.calls) > 0
}
