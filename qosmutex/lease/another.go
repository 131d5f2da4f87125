package lease

import (
	"fmt"

	"padme/qosmutex/protocol"
)

// A topic whose participants were given different registers has a root in each of them.
// No register can prevent that, so candidates listen: whoever hears of a root of another
// register makes no first record beside it, and of two roots that hear each other the
// one with the earlier term stops. What is heard is no authority: it never makes
// anybody the root, and it keeps somebody from being it for a grace at a time.

// claimed takes what somebody says of a root.
func (m *Machine) claimed(c *protocol.Claim) error {
	switch {
	case c.Register == 0 || c.TTL <= 0 || c.TTL > protocol.MaxTTL:
		return fmt.Errorf("%w: a claim of nothing", ErrInvalid)
	case m.read && c.Register == m.known.Version.Register():
		return nil
	case m.tooLate(c.Epoch.Number):
		return fmt.Errorf("%w: a root of another register with term %d, which is more than an hour ahead", ErrInvalid, c.Epoch.Number)
	}
	o := &m.other
	if o.counts(m.now) && o.claim.Register != c.Register && o.claim.Epoch.Compare(c.Epoch) > 0 {
		return nil // the one above it decides
	}
	root := c.Root || o.counts(m.now) && o.claim.Root && o.claim.Register == c.Register
	told := o.told && o.counts(m.now)
	*o = other{claim: *c, until: m.now + m.cfg.grace(max(c.TTL, m.ttl())), told: told}
	o.claim.Root = root
	return nil
}

// tooLate reports whether a term is above all that begin in the next hour: terms begin
// at the wall clock, in microseconds.
func (m *Machine) tooLate(term uint64) bool {
	return term > max(m.wall(), m.known.Record.Term)+hour
}

// remember begins another term if somebody follows nobody in this one.
func (m *Machine) remember(term uint64, out *Output) error {
	switch {
	case m.tooLate(term):
		return fmt.Errorf("%w: a root had term %d, which is more than an hour ahead", ErrInvalid, term)
	case m.cfg.FirstTerm == 0 || !m.acting.on || term < m.known.Record.Term || m.now < m.acting.began+2*m.cfg.grace(m.ttl()):
		return nil
	}
	m.later = term
	m.dismiss(out) // the record names us: see reclaim
	return nil
}

func (o *other) counts(now protocol.Time) bool { return now < o.until }

// Elsewhere reports whether a root of another register keeps this participant from being
// the root.
func (m *Machine) Elsewhere() bool {
	o := &m.other
	if !m.read || !o.counts(m.now) || o.claim.Register == m.known.Version.Register() {
		return false
	}
	return !m.exists() || o.claim.Epoch.Compare(protocol.EpochOf(m.known.Record.Term, m.known.Record.Root)) > 0
}

// giveWay stops a root that has heard of another one above it.
func (m *Machine) giveWay(out *Output) {
	if !m.Elsewhere() || m.acting.on && !m.other.claim.Root {
		return
	}
	if !m.other.told {
		m.other.told = true
		out.Elsewhere = &Elsewhere{Claim: m.other.claim, Stopped: m.acting.on}
	}
	m.dismiss(out)
}

// ttl is the topic's, as far as is known.
func (m *Machine) ttl() protocol.Duration {
	if m.exists() {
		return m.known.Record.TTL
	}
	return m.cfg.TTL
}

// above has a new term begin above what a root of another register can have had, heard of
// or not: at the wall clock, as all terms and their fences do where FirstTerm is one. A
// term that the record names already is that of the root before, which tells us what it
// knows in it; only what was heard moves it. A retry is the same write.
func (m *Machine) above(r *protocol.Record) {
	if w := &m.pending; w.on && w.Old == m.known.Version && w.Record.Root == r.Root && w.Record.Term >= r.Term {
		r.Term, r.Ceiling = w.Record.Term, max(r.Ceiling, w.Record.Ceiling)
		return
	}
	known := m.later
	if m.other.until != 0 {
		known = max(known, m.other.claim.Epoch.Number)
	}
	heard := known >= r.Term
	if heard {
		r.Term = known + 1
	}
	byClock := m.cfg.FirstTerm != 0 && (heard || !m.exists() || r.Term > m.known.Record.Term)
	if byClock {
		r.Term = max(r.Term, m.cfg.FirstTerm+m.passed())
	}
	if heard || byClock {
		r.Ceiling = max(r.Ceiling, m.wall()+block)
	}
}

// wall is the wall clock in microseconds.
func (m *Machine) wall() uint64 { return m.cfg.Wall + m.passed() }

// passed is how many microseconds have passed since the first Step.
func (m *Machine) passed() uint64 { return uint64((m.now - m.start) / protocol.Microsecond) }
