package padme

import (
	"encoding/binary"
	"fmt"

	"padme/qosmutex/protocol"
)

// AppendState appends the machine's state in a canonical form, to be hashed by a
// model checker: two machines made alike which, at time now, append the same will
// also do the same from here on, whatever happens. Left out are what never
// changes after New, statistics (counters, the numbers of waiting requests that
// are only reported), memory kept for reuse, and what the algorithm never reads
// again. Instants are written relative to now, and no further away than matters.
// Numbers that count up are left to names, which must be appended after all states
// of a world; see [Names].
//
// now must not be before the machine's last Step. names must have as Slack of
// SortLink more than a link ever has under way, and of SortFence more than one
// grant may use.
func (m *Machine) AppendState(dst []byte, now protocol.Time, names *Names) []byte {
	s := scribe{b: dst, now: now, names: names}
	s.machine(m)
	return s.b
}

// AppendMessageState appends a message in flight in the same form.
func AppendMessageState(dst []byte, now protocol.Time, names *Names, msg *protocol.Message) []byte {
	s := scribe{b: dst, now: now, names: names}
	s.message(msg)
	return s.b
}

// HasToken reports whether the token of resource is here and may be used: it rests,
// our application is inside, or it is kept until there is a parent and has a fence left.
func (m *Machine) HasToken(resource string) bool {
	r := m.find(resource)
	return r != nil && r.tok.usable()
}

func (t *token) usable() bool {
	return t.phase == home || t.phase == using || t.phase == kept && t.bound.Compare(t.grant) < 0 && !t.returned && t.fences.Next < t.fences.End
}

// Term returns role and epoch without the cost of Status.
func (m *Machine) Term() (protocol.Role, protocol.Epoch) { return m.role, m.epoch }

// Self returns the name of the participant.
func (m *Machine) Self() protocol.Node { return m.self }

// WakeAt is when to Step with a Tick even if nothing else happens, as Output says.
func (m *Machine) WakeAt() protocol.Time { return m.wakeAt() }

// Settled reports whether the machine is the root and knows all sessions: it waits for no
// member of a term before.
func (m *Machine) Settled() bool { return m.role == protocol.Root && m.authority.inherit == 0 }

// ActsUntil is the instant below which the machine is the root and may grant, unless
// its lease is extended; 0: it may not.
func (m *Machine) ActsUntil() protocol.Time {
	if !m.acting() {
		return 0
	}
	return m.authority.until
}

// Parent returns whom the machine is attached to: nobody at a root, or while it
// looks for a parent.
func (m *Machine) Parent() protocol.Node {
	if m.parent == nil {
		return protocol.Node{}
	}
	return m.parent.peer
}

// Own returns the name of our application's request ref; the zero name if it is over.
func (m *Machine) Own(ref uint64) protocol.RequestID {
	if e := m.ownByRef(ref); e != nil {
		return e.id
	}
	return protocol.RequestID{}
}

// Knows reports whether request id lives, as far as is known here.
func (m *Machine) Knows(id protocol.RequestID) bool { return m.requests.get(id) != nil }

// CheckAtRest reports what is left here of any request, when nobody wants anything
// and no message is in flight: a request, a token that is not at home, or a
// participant without a place in the tree.
func (m *Machine) CheckAtRest() error {
	if m.role == protocol.Departed {
		return nil
	}
	if m.role != protocol.Root && m.role != protocol.Member {
		return fmt.Errorf("%v is still %v", m.self, m.role)
	}
	for _, e := range m.requests {
		return fmt.Errorf("request %v,c%d is left at %v", e.id.Node, e.id.Clock, m.self)
	}
	for _, r := range m.resources {
		switch {
		case m.role == protocol.Root && r.tok.phase != home:
			return fmt.Errorf("the token of %q is lost: phase %d at the root", r.q.resource, r.tok.phase)
		case m.role != protocol.Root && r.tok.phase != away && r.tok.phase != below:
			return fmt.Errorf("%v thinks that the token of %q is in phase %d", m.self, r.q.resource, r.tok.phase)
		}
	}
	return nil
}

// scribe writes states.
type scribe struct {
	b     []byte
	now   protocol.Time
	names *Names
}

func (s *scribe) uint(values ...uint64) {
	for _, v := range values {
		s.b = binary.AppendUvarint(s.b, v)
	}
}

func (s *scribe) int(v int64) { s.b = binary.AppendVarint(s.b, v) }

func (s *scribe) flags(bits ...bool) {
	v := uint64(0)
	for i, set := range bits {
		if set {
			v |= 1 << i
		}
	}
	s.uint(v)
}

func (s *scribe) text(v string) {
	s.uint(uint64(len(v)))
	s.b = append(s.b, v...)
}

// left is how long it is until t; what is past is past.
func (s *scribe) left(t protocol.Time) {
	if t == protocol.Never {
		s.int(-1)
		return
	}
	s.int(int64(max(t-s.now, 0)))
}

// age is how long ago t was, at most limit.
func (s *scribe) age(t protocol.Time, limit protocol.Duration) { s.int(int64(min(s.now-t, limit))) }

func (s *scribe) named(sort Sort, v uint64) { s.names.note(sort, 0, v) }

func (s *scribe) node(n protocol.Node) {
	s.text(n.ID)
	s.uint(n.Incarnation)
}

func (s *scribe) nodes(list []protocol.Node) {
	s.uint(uint64(len(list)))
	for _, n := range list {
		s.node(n)
	}
}

func (s *scribe) epoch(e protocol.Epoch) { s.uint(e.Number, e.Tie) }

func (s *scribe) grant(g protocol.Grant) {
	s.epoch(g.Epoch)
	s.named(SortGrant, g.Number)
}

func (s *scribe) id(id protocol.RequestID) {
	s.node(id.Node)
	s.named(SortClock, id.Clock)
}

func (s *scribe) models(m protocol.Models) {
	s.uint(uint64(m.Priority), uint64(m.Request), uint64(m.Reply), uint64(m.Release))
}

func (s *scribe) settings(v *protocol.Settings) {
	s.uint(v.Version)
	s.models(v.Models)
	s.flags(v.Open)
	s.uint(uint64(len(v.Resources)))
	for _, r := range v.Resources {
		s.text(r)
	}
}

func (s *scribe) fences(f protocol.Fences) {
	s.named(SortFence, f.Next)
	s.named(SortFence, f.End)
}

func (s *scribe) entries(list []protocol.Entry) {
	s.uint(uint64(len(list)))
	for _, e := range list { // a receiver reads only their names
		s.id(e.ID)
	}
}
