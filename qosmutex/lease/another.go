package lease

import "padme/qosmutex/protocol"

// A topic whose participants were given different registers has a root in each of them.
// No register can prevent that, so candidates listen: whoever hears of a root of another
// register makes no first record beside it, and of two roots that hear each other the
// one with the earlier term stops. What is heard is no authority: it never makes
// anybody the root, and it keeps somebody from being it for a grace at a time.

// other is a claim of a root that may be of another register.
type other struct {
	claim protocol.Claim
	until protocol.Time // it counts below; 0: there was none
}

func (o *other) counts(now protocol.Time) bool { return now < o.until }

// claimed takes what somebody says of a root.
func (m *Machine) claimed(c *protocol.Claim) {
	switch {
	case c.Register == 0 || c.TTL <= 0 || c.TTL > protocol.MaxTTL || m.tooLate(c.Epoch.Number):
		return
	case m.read && c.Register == m.known.Version.Register():
		return
	}
	was, next := &m.other, other{*c, m.now + m.cfg.grace(max(c.TTL, m.ttl()))}
	if was.counts(m.now) {
		same := was.claim.Register == c.Register
		if !same && was.claim.Epoch.Compare(c.Epoch) > 0 {
			return // the one above it decides
		}
		next.claim.Root = c.Root || same && was.claim.Root
	}
	m.other = next
}

// tooLate reports whether a term is above all that begin in the next hour: terms begin
// at the wall clock, in microseconds. Where ours is, because that clock went back, one may
// be above it by so little that whoever says so again and again does not outrun the clock.
func (m *Machine) tooLate(term uint64) bool {
	return term > max(m.wall()+hour, m.known.Record.Term+second)
}

// remember begins another term if somebody who looks for a root knows a later one than
// ours, of a register that is gone, and follows nobody below it. While the register is so
// new that we have let nobody in, that is done at once, so that fences do not fall; later
// a root of another register that lives has time to be heard first.
func (m *Machine) remember(term uint64, out *Output) {
	grace := m.cfg.grace(m.ttl())
	soon := m.now >= m.born+grace && m.now < m.acting.began+2*grace
	if m.cfg.FirstTerm == 0 || soon || m.tooLate(term) || term < m.known.Record.Term {
		return
	}
	m.later = term
	m.dismiss(out) // the record names us, so we begin the next term: see want
}

// Elsewhere reports whether a root of another register keeps this participant from being
// the root. Only what that root says itself stops one that is.
func (m *Machine) Elsewhere() bool {
	o := &m.other
	if !m.read || !o.counts(m.now) || o.claim.Register == m.known.Version.Register() || m.acting.on && !o.claim.Root {
		return false
	}
	return !m.exists() || o.claim.Epoch.Compare(protocol.EpochOf(m.known.Record.Term, m.known.Record.Root)) > 0
}

// giveWay stops a root that has heard of another one above it.
func (m *Machine) giveWay(out *Output) {
	switch is := m.Elsewhere(); {
	case is == m.barred:
		return
	case is:
		m.dismiss(out)
		out.tell(protocol.Input{Kind: protocol.Bar})
	default:
		out.tell(protocol.Input{Kind: protocol.Unbar})
	}
	m.barred = !m.barred
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
	w, heard := &m.pending, m.later
	if m.other.until != 0 {
		heard = max(heard, m.other.claim.Epoch.Number)
	}
	switch {
	case w.on && w.Old == m.known.Version && w.Record.Root == r.Root && w.Record.Term >= r.Term:
		r.Term, r.Ceiling = w.Record.Term, max(r.Ceiling, w.Record.Ceiling)
		return
	case heard >= r.Term:
		r.Term = heard + 1
		r.Ceiling = max(r.Ceiling, heard+2*block) // its fences began there, if its clock was ahead of ours
	case m.cfg.FirstTerm == 0 || m.exists() && r.Term == m.known.Record.Term:
		return
	}
	if m.cfg.FirstTerm != 0 {
		r.Term = max(r.Term, m.cfg.FirstTerm+m.passed())
	}
	r.Ceiling = max(r.Ceiling, m.wall()+block)
}

// wall is the wall clock in microseconds.
func (m *Machine) wall() uint64 { return m.cfg.Wall + m.passed() }

// passed is how many microseconds have passed since the first Step.
func (m *Machine) passed() uint64 { return uint64((m.now - m.start) / protocol.Microsecond) }
