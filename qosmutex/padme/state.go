package padme

import (
	"fmt"
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// AppendState appends the machine's state in a canonical form, to be hashed by a
// model checker: two machines made alike which, at time now, append the same will
// also do the same from here on, whatever happens. Left out are what never
// changes after New, statistics (counters, the numbers of waiting requests that
// are only reported), the names of clients, memory kept for reuse, and what the
// algorithm never reads again. Instants are written relative to now, and no further
// away than matters. Numbers that count up are left to names, which must be appended
// after all states of a world; see [canonical.Names].
//
// now must not be before the machine's last Step. names must have as Slack of
// canonical.SortLink more than a link ever has under way, and of SortFence more than one
// grant may use.
func (m *Machine) AppendState(dst []byte, now protocol.Time, names *canonical.Names) []byte {
	w := canonical.Writer{B: dst, Now: now, Names: names}
	m.write(&w)
	return w.B
}

func (m *Machine) write(w *canonical.Writer) {
	w.Node(m.self)
	if w.Is(m.role == protocol.Departed) {
		return
	}
	m.core.write(w)
	m.links.write(w, &m.core)
	m.tree.write(w, &m.core)
	m.sessions.write(w, &m.core)
	m.queues.write(w, m.self)
	m.tokens.write(w, m)
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

// LetIn reports whether the machine, as the root, has let anybody in in its term, or knows of
// a hold that goes on from a term before.
func (m *Machine) LetIn() bool {
	return m.role == protocol.Root && (m.grants > 0 || slices.ContainsFunc(m.resources, func(r *resource) bool {
		return r.tok.phase != home && !r.tok.unreported()
	}))
}

// SettlesAt is when a root that is not Settled is at the latest.
func (m *Machine) SettlesAt() protocol.Time { return m.authority.inherit }

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
// and no message is in flight: a request, a token that is neither at home nor retained, or
// a participant without a place in the tree.
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
		case m.role == protocol.Root && r.tok.phase != home && !(r.tok.phase == below && r.tok.idle):
			return fmt.Errorf("the token of %q is lost: phase %d at the root", r.q.resource, r.tok.phase)
		case m.role != protocol.Root && r.tok.phase != away && r.tok.phase != below && m.keptFor(&r.q) != r:
			return fmt.Errorf("%v thinks that the token of %q is in phase %d", m.self, r.q.resource, r.tok.phase)
		}
	}
	return nil
}
