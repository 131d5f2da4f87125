package qosmutex

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
)

// NotReadyError says that it is not known whether a lock is free, because nothing can be
// granted now: the root has only just started, or there is none, for example without a
// majority of the voters.
type NotReadyError struct {
	Topic string
	Why   string // and the remedy, for people
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("qosmutex: lock topic %q is not ready: %s", e.Topic, e.Why)
}

// Trouble returns a sentence for people that says why nothing is granted in this topic now,
// and the remedy. It is "" if nothing is known to be wrong, for example while this
// participant looks for the root.
func (t *Topic) Trouble() string {
	if t.made() != nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := &t.record
	if t.ready() && !t.ended {
		if t.unsettled() {
			left := time.Duration(k.candidate.SettlesAt() - t.clock())
			return fmt.Sprintf("its root has just begun, and grants nothing before all that may have been granted earlier is known or over, in %v at most", atMost(left))
		}
		return ""
	}
	switch {
	case k.failure != nil:
		return registerTrouble(k.failure, k.missing)
	case k.elsewhere:
		return "another register keeps its root, which does not answer"
	}
	return ""
}

// atMost is a bound for people, in tenths of a second: never below d, and never 0s.
func atMost(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return max(d+tenth-1, tenth).Truncate(tenth)
}

// unsettled reports whether this is a root that does not know yet what may be held. The
// caller holds mu.
func (t *Topic) unsettled() bool {
	return t.status.Role == protocol.Root && t.record.candidate != nil && !t.record.candidate.Settled()
}

// grantsFrom is when a root that is unsettled grants all at the latest; zero: it does. It
// is the same however often it is asked for. The caller holds mu.
func (t *Topic) grantsFrom() time.Time {
	b := &t.board
	if !t.unsettled() {
		return time.Time{}
	}
	if at := t.record.candidate.SettlesAt(); b.settlesAt != at || b.grantsFrom.IsZero() {
		b.settlesAt = at
		b.grantsFrom = time.Now().Add(time.Duration(at - t.clock())).UTC().Round(time.Millisecond)
	}
	return b.grantsFrom
}

// registerTrouble says why a register does not answer, which has these voters missing.
func registerTrouble(err error, missing []string) string {
	var away *register.Unavailable
	if errors.As(err, &away) && len(away.Missing) > 0 {
		missing = away.Missing
	}
	if len(missing) == 0 {
		return fmt.Sprintf("the register that keeps its root does not answer: %v", err)
	}
	return fmt.Sprintf("no majority of the voters answers, and without one nothing is granted: start %s, or see \"pubsub-node voters show\"", strings.Join(missing, ", "))
}

// Trouble is [Topic.Trouble] of a topic that the server has open or is about to open.
func (s *Server) Trouble(name string) string {
	if s.made() != nil {
		return ""
	}
	s.mu.Lock()
	var t *Topic
	if e := s.topics[name]; e != nil {
		t = e.opening
	}
	s.mu.Unlock()
	if t == nil {
		return ""
	}
	return t.Trouble()
}

// Settles returns how long a new root of a topic with this TTL takes at most, with some
// time to spare, until it knows which locks are held. If ttl is 0, the TTL is the server's.
func (s *Server) Settles(ttl time.Duration) time.Duration {
	if s.made() != nil {
		return 0
	}
	if ttl == 0 {
		ttl = time.Duration(s.timing.TTL)
	}
	return time.Duration(s.timing.WithTTL(protocol.Duration(ttl)).Grace()) + 2*time.Second
}

// begins has f called with the topic before Open waits for a place in it.
func begins(f func(*Topic)) Option {
	return func(o *options) error {
		o.begins = f
		return nil
	}
}

// gather has the lines of a topic that others are likely to say, too, said as one.
func (s *Server) gather(o *options) error {
	o.alike, o.reached = s.lines, s.reached
	return nil
}

// openAs opens a topic for e, which tells of it from the beginning.
func (s *Server) openAs(e *servedTopic, name string, opts ...Option) (*Topic, error) {
	return Open(s.ctx, s.p, name, append(slices.Clone(opts), s.gather, s.name, begins(func(t *Topic) {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.opening = t
	}))...)
}
