package lease

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// answer takes what the register says.
func (m *Machine) answer(in *Input, out *Output) error {
	kind := ReadRecord
	if in.Kind == WriteDone {
		kind = WriteRecord
	}
	if m.asked.kind != kind || m.asked.ref != in.Ref {
		return fmt.Errorf("%w: an answer to %d, which is not open", ErrInvalid, in.Ref)
	}
	a := m.asked
	m.asked = asked{}
	if kind == ReadRecord {
		return m.onRead(in, a, out)
	}
	return m.onWritten(in, a, out)
}

func (m *Machine) onRead(in *Input, a asked, out *Output) error {
	if in.Outcome != Done {
		m.retry()
		return nil
	}
	m.born = m.now - min(in.Age, oldest)
	if m.pending.on && m.pending.made(in.Entry.Version) {
		return m.succeed(in.Entry.Version, a, out)
	}
	// A write that was not made may still be, as long as what it replaces is there. If
	// we forget it and it is made later, we find a record of our own that we did not
	// count on.
	m.pending = pending{}
	return m.learn(in.Entry, a, out)
}

func (m *Machine) onWritten(in *Input, a asked, out *Output) error {
	switch in.Outcome {
	case Done, Conflict:
		if m.pending.made(in.Entry.Version) {
			return m.succeed(in.Entry.Version, a, out)
		}
		m.pending = pending{}
		if in.Outcome == Done {
			m.retry()
			return fmt.Errorf("%w: the register says that it made version %v of another write", ErrInvalid, in.Entry.Version)
		}
		return m.learn(in.Entry, a, out)
	case Unknown:
		m.pending.unknown = true
	default:
		if !m.pending.unknown { // else an earlier attempt of it may still take effect
			m.pending = pending{}
		}
	}
	m.retry()
	return nil
}

// retry has nothing asked for a moment.
func (m *Machine) retry() { m.again = m.now + m.lease()/16 }

// succeed takes that the pending write was made.
func (m *Machine) succeed(v Version, a asked, out *Output) error {
	w := m.pending
	m.pending = pending{}
	if err := m.learn(Entry{v, w.Record}, a, out); err != nil || !m.mine() {
		return err
	}
	until := w.first + m.cfg.term(w.Record.Lease)
	switch {
	case m.acting.on:
		m.acting.until, m.acting.renewed = until, w.first
		out.Extended = &Extended{Version: v, Until: until, Renewed: w.first, Ceiling: w.Record.Ceiling}
	case m.now < until && w.Record.Term > m.spent && m.successor.IsZero() && !m.leaving && !m.Elsewhere():
		m.acting, m.spent, m.other = acting{true, until, w.first, m.now}, w.Record.Term, other{}
		heard := w.heard
		// If voters forgot a later renewal than the one that we heard of, they made no
		// write for a lease, stretched by the drift, after it was sent.
		switch {
		case w.Old.Counter != 0:
			heard = max(heard, m.now-w.Record.Lease)
		case m.cfg.Listen > 0: // who creates at the same moment hears of us before we let somebody in, and we of it
			heard = max(heard, m.now+m.cfg.Listen-m.cfg.grace(w.Record.TTL))
		}
		out.Appointed = &Appointed{
			Entry: m.known, Until: until, Renewed: w.first,
			First: w.fence, Heard: heard,
		}
	}
	return nil
}

// learn takes what the register has, as the answer to what was asked. It may be older
// than what it had before, if it forgot a renewal.
func (m *Machine) learn(e Entry, a asked, out *Output) error {
	if m.read && e.Version.Domain != m.known.Version.Domain {
		m.retry()
		return ErrDomain
	}
	if m.exists() && e.Version.Counter == 0 {
		m.retry()
		return fmt.Errorf("%w: the register has no record any more", ErrInvalid)
	}
	old, opened := m.known.Record, m.exists()
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
	m.read, m.known, m.look = true, e, false
	if m.other.claim.Register == e.Version.Register() { // heard before we had read which is ours
		m.other = other{}
	}
	if m.other.claim.Register == e.Version.Register() {
		m.other = other{} // it was heard before we knew which register ours is
	}
	if m.acting.on && (!m.mine() || e.Record.Term != m.spent) {
		m.dismiss(out)
	}
	if !m.mine() {
		m.successor = protocol.Node{}
	}
	out.Absent = !m.exists() && !m.cfg.Create
	if !m.exists() || opened && sameMeaning(&old, &e.Record) {
		return nil
	}
	out.Changed = &e
	if m.declaration != nil && e.Record.Declared && sameSettings(&m.declaration.Settings, &e.Record.Settings) {
		m.declaration = nil
	}
	if !opened && m.cfg.Declared && e.Record.Declared && !sameSettings(&m.cfg.Settings, &e.Record.Settings) {
		out.Disagreement = disagreement(&e.Record, &m.cfg.Settings, m.cfg.DeclaredBy)
	}
	return nil
}
