package qosmutex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/internal/wait"
	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// A server without WithRegister is the only one that knows what it granted, and others may
// create its topics elsewhere while it is not there. So what it noted counts for its next
// process only if nobody else was the root in between. Whoever was may let somebody in once all
// that this one granted is over, a TTL after its last sign of life; and what the broker retains of
// the last root names it then.

// KeepIn makes a Server store the topics that it creates without WithRegister in r, a
// register in a file, instead of in memory. The next process with the same file continues
// as the root immediately and with its members, and with Resume also with its holds. If
// WithRegister gives the server another register, or another participant is the root, r
// only records what the next process needs to continue with its holds. No other participant
// may use r, and a clock set by WithClock must continue from process to process. The caller
// closes r after the server.
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

// settleNotes returns true once each topic of the process before is open, or its notes count no more
// and are forgotten; false: the server has ended.
func (s *Server) settleNotes() bool {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		var over []string
		s.mu.Lock()
		left := len(s.before)
		for name, until := range s.before {
			if s.clock() >= until {
				over = append(over, name)
			}
		}
		s.mu.Unlock()
		for _, name := range over {
			s.forgetNotes(name)
		}
		if left == len(over) {
			return true
		}
		select {
		case <-look.C:
		case <-s.ctx.Done():
			return false
		}
	}
}

// forgetNotes has nothing count any more that was noted of a topic as its root. A server that has ended
// leaves everything to the next process.
func (s *Server) forgetNotes(name string) {
	if s.ctx.Err() != nil || s.p.Err() != nil {
		return
	}
	key := recordKey(s.p.Root(), name)
	var err error
	if s.own.Session(key).Number == 0 {
		err = s.own.Forget(key)
	} else { // what it held as a member, its root may still know
		err = errors.Join(s.own.NoteMember(key, "", true), s.own.NoteTerm(key, 0))
	}
	if err != nil {
		s.log.Warn("a restart will cost clients their holds", "error", err)
	}
	s.settled(name)
}

// settled notes that the process before has left nothing of a topic that may count yet.
func (s *Server) settled(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.before, name)
}

// ownRegister is the register of a server that has none in common with others. A topic of
// which it has no record may have had a root elsewhere, so its age is for how long that is
// known not to be so.
type ownRegister struct {
	*local.Register
	age   func() time.Duration
	until protocol.Time // what was noted of the topic counts before that, by the participant's clock; 0: it does not
}

// Age implements [register.Register].
func (r ownRegister) Age() time.Duration { return r.age() }

// Members implements placed.
func (r ownRegister) Members(key string) (all []string, ok bool) {
	if r.until == 0 {
		return nil, false
	}
	return r.Register.Members(key)
}

// Terms implements placed.
func (r ownRegister) Terms(key string) []uint64 {
	if r.until == 0 {
		return nil
	}
	return r.Register.Terms(key)
}

// kept is where processes before this one noted who may hold; nil: nowhere.
func (s *Server) kept() placed {
	if s.register == nil || s.own.Notes() {
		return s.own
	}
	p, _ := s.register.(placed)
	return p
}

// keptBefore names the topics of which an earlier process has left notes, and until when they may
// count.
func (s *Server) keptBefore() map[string]protocol.Time {
	before := map[string]protocol.Time{}
	if s.register != nil { // it says whether they count
		return before
	}
	for _, key := range s.own.Noted() {
		if name, ok := strings.CutPrefix(key, recordKey(s.p.Root(), "")); ok {
			before[name] = s.notesUntil(key)
		}
	}
	return before
}

// notesUntil is until when nobody else can have let anybody in by the word of a root in another
// register: a TTL after the last sign of life of the process before this one, by any clock. 0: that is
// not known.
func (s *Server) notesUntil(key string) protocol.Time {
	last, ok := s.own.Lived()
	e, err := s.own.Get(context.Background(), key)
	if !ok || err != nil || protocol.Time(last) > s.clock() {
		return 0
	}
	r, err := protocol.DecodeRecord(e.Value)
	if err != nil {
		return 0
	}
	return protocol.Time(last) + protocol.Time(float64(r.TTL)*(1-2*s.timing.Drift))
}

// goesOn returns until when what the process before it noted of a topic counts for this one, with the
// same register of its own: it was the last root, and nobody else can have let anybody in yet.
// 0: it does not. It is asked before the topic is opened; the error says that the broker did not
// answer.
func (s *Server) goesOn(name string) (until protocol.Time, err error) {
	s.mu.Lock()
	until, before := s.before[name]
	s.mu.Unlock()
	if before && s.clock() < until {
		term, err := s.lastRoot(name)
		if err != nil {
			return 0, err
		}
		if slices.Contains(s.own.Terms(recordKey(s.p.Root(), name)), term) { // the very last one may have ended before it told the broker
			return until, nil
		}
	}
	return 0, nil
}

// lastRoot is the term of the last root of a topic, by what the broker retains of it; 0 if it retains
// nothing.
func (s *Server) lastRoot(name string) (term uint64, err error) {
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
		return 0, endOfWatch(ctx, err)
	}
	defer stop()
	select {
	case term = <-said:
	case <-time.After(viewWithin):
		return 0, nil
	case <-ctx.Done():
		return 0, interrupted(ctx, "what the broker retains of lock topic "+name)
	}
	wait.Sleep(ctx, viewSettles)
	select {
	case term = <-said:
	default:
	}
	return term, nil
}

// LeavesHolds reports whether the next process with the same register (KeepIn) continues
// with something that this one has for others: holds with a note and, if it has no other
// register and so cannot hand anything over, the holds of members of which it is the root,
// and the roles of servers. If so, end the participant before the server, as in a crash.
// Then no client is informed that its hold is over.
func (s *Server) LeavesHolds() bool {
	if s.made() != nil || !s.own.Notes() {
		return false
	}
	servers := recordKey(s.p.Root(), servedBy)
	for _, key := range s.own.Inhabited() {
		if key != servers && len(s.own.Held(key)) > 0 || s.register == nil && len(s.own.Terms(key)) > 0 {
			return true
		}
	}
	return s.register == nil && len(s.own.Terms(servers)) > 0
}
