package lease

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// answer takes what the register says.
func (m *Machine) answer(in *Answer, out *Output) error {
	a, w := m.asked, m.pending
	m.asked = asked{}
	switch {
	case a.kind == NoRequest:
		return fmt.Errorf("%w: an answer, and nothing was asked", ErrInvalid)
	case in.Outcome == Unknown:
		m.pending.unknown = w.on
		return nil
	case in.Outcome == Failed:
		if !w.unknown { // else an earlier attempt of it may still take effect
			m.pending = pending{}
		}
		return nil
	}
	m.born = m.now - min(in.Age, oldest)
	// A write that was not made may still be, as long as what it replaces is there. If
	// we forget it and it is made later, we find a record of our own that we did not
	// count on.
	m.pending = pending{}
	switch v := in.Entry.Version; {
	case w.on && w.made(v):
		return m.succeed(&w, v, a, out)
	case a.kind == WriteRecord && in.Outcome == Done:
		return fmt.Errorf("%w: the register says that it made version %v of another write", ErrInvalid, v)
	}
	return m.learn(in.Entry, a, out)
}

// succeed takes that a write of ours was made.
func (m *Machine) succeed(w *pending, v Version, a asked, out *Output) error {
	if err := m.learn(Entry{v, w.Record}, a, out); err != nil || !m.mine() {
		return err
	}
	r := &w.Record
	told := &protocol.Lease{
		Term: r.Term, Until: w.first + m.cfg.term(r.Lease), Renewed: w.first,
		Renewal: protocol.Renewal{Counter: v.Counter, Nonce: v.Nonce}, Fences: protocol.Fences{End: r.Ceiling},
	}
	switch {
	case m.acting.on:
		m.acting.until, m.acting.renewed = told.Until, w.first
		out.tell(protocol.Input{Kind: protocol.Extended, Lease: told})
	case m.now < told.Until && r.Term > m.spent && m.successor.IsZero() && !m.leaving && !m.Elsewhere():
		m.appoint(w, told)
		out.tell(protocol.Input{Kind: protocol.Appointed, Lease: told})
	}
	return nil
}

// appoint makes us the root by a write of ours, and completes what the lock machine is
// told.
func (m *Machine) appoint(w *pending, told *protocol.Lease) {
	r := &w.Record
	told.Heard = max(w.heard, m.born) // what makes the register count as newer may have been heard since
	switch {
	case w.Old.Counter != 0:
		// If voters forgot a later renewal than the one that we heard of, they made no
		// write for a lease, stretched by the drift, after it was sent.
		told.Heard = max(told.Heard, m.now-r.Lease)
	case m.cfg.Listen > 0:
		// Who creates at the same moment hears of us before we let somebody in, and we of it.
		told.Heard, told.Unheard = max(told.Heard, m.now+m.cfg.Listen-m.cfg.grace(r.TTL)), true
	}
	told.Register, told.TTL, told.Settings, told.Fences.Next = m.known.Version.Register(), r.TTL, r.Settings, w.fence
	counts := m.cfg.CountsUntil == 0 || m.now < m.cfg.CountsUntil
	if m.spent == 0 && w.restart && m.other.until == 0 && counts { // who may hold when we were started is not who may hold in a later term
		told.Members, told.Known, told.Held = m.cfg.Members, m.cfg.Known, m.cfg.Held
	}
	m.acting, m.spent, m.other = acting{true, told.Until, w.first, m.now}, r.Term, other{}
}

// learn takes what the register has, as the answer to what was asked. It may be older
// than what it had before, if it forgot a renewal.
func (m *Machine) learn(e Entry, a asked, out *Output) error {
	switch {
	case m.read && e.Version.Domain != m.known.Version.Domain:
		return ErrDomain
	case m.exists() && e.Version.Counter == 0:
		return fmt.Errorf("%w: the register has no record any more", ErrInvalid)
	}
	switch {
	case m.read && e.Version == m.known.Version:
	case m.heard.on && e.Version == m.heard.version:
		m.since = m.heard.at
	default:
		m.since = m.now
	}
	if !m.heard.version.after(e.Version) || m.heard.at <= a.at { // else it may be newer still
		m.heard = heard{}
	}
	changed := e.Record.Settings.Version != m.known.Record.Settings.Version
	m.read, m.known, m.look = true, e, false
	if m.other.claim.Register == e.Version.Register() { // heard before we had read which is ours
		m.other = other{}
	}
	if m.acting.on && (!m.mine() || e.Record.Term != m.spent) {
		m.dismiss(out)
	}
	if m.acting.on && changed {
		out.tell(protocol.Input{Kind: protocol.Configure, Lease: &protocol.Lease{Settings: e.Record.Settings}})
	}
	m.settle(out)
	return nil
}

// settle ends the wait of a root that has stopped, once the record names another.
func (m *Machine) settle(out *Output) {
	switch r := &m.known.Record; {
	case m.successor.IsZero() || m.mine():
		return
	case r.Root == m.successor:
		out.tell(protocol.Input{Kind: protocol.Succeeded, Lease: &protocol.Lease{Term: r.Term}, Node: r.Root})
	default: // somebody was faster
		out.tell(protocol.Input{Kind: protocol.Dismissed})
	}
	m.successor = protocol.Node{}
}
