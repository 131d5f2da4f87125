package qosmutex

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// A server without WithRegister is the only one that knows what it granted, and others may
// create its topics elsewhere while it is not there. So what it noted counts for its next
// process only if nobody else was the root in between: the broker retains what the last
// root said of itself, and each says so when it begins, before it lets anybody in.

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
	// viewWithin is how long the broker may take to tell of the last root.
	viewWithin = 500 * time.Millisecond
	// viewSettles is for how long another root's word may be on its way when it began just now.
	viewSettles = 10 * flushAfter
)

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
// of its own, ended as the last root of a topic. It says so once, before the topic is opened.
func (s *Server) goesOn(name string) bool {
	s.mu.Lock()
	before := s.before[name]
	delete(s.before, name)
	s.mu.Unlock()
	if !before {
		return false
	}
	e, err := s.own.Get(s.ctx, recordKey(s.p.Root(), name))
	if err != nil || e.Version.Counter == 0 {
		return false
	}
	r, err := protocol.DecodeRecord(e.Value)
	return err == nil && s.lastRoot(name) == protocol.EpochOf(r.Term, r.Root).String()
}

// lastRoot is the epoch of the last root of a topic, by what the broker retains of it; empty if
// that is not known.
func (s *Server) lastRoot(name string) (epoch string) {
	ctx, cancel := context.WithTimeout(s.ctx, viewWithin)
	defer cancel()
	said := make(chan string, 1) // the newest
	stop, err := s.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", name, "view"}, func(m pubsub.RawMessage) {
		var v View
		if json.Unmarshal(m.Payload, &v) != nil {
			v.Epoch = ""
		}
		select {
		case <-said:
		default:
		}
		said <- v.Epoch
	})
	if err != nil {
		return ""
	}
	defer stop()
	select {
	case epoch = <-said:
	case <-ctx.Done():
		return ""
	}
	pause(ctx, viewSettles)
	select {
	case epoch = <-said:
	default:
	}
	return epoch
}

// ServesAlone reports whether no other server of lock topics is there, as far as the broker
// tells. Whoever is about to end a server with KeepIn or WithRegister can then end its
// participant first, so that it ends as in a crash: the next process goes on with everything,
// and nobody else could in the meantime.
func (s *Server) ServesAlone() bool {
	if s.made() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.blind && len(s.serving) == 0
}
