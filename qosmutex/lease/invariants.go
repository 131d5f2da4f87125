package lease

import "fmt"

// CheckInvariants returns what cannot be true of a correct machine, or nil.
func (m *Machine) CheckInvariants() error {
	r := &m.known.Record
	switch {
	case m.acting.on && (!m.mine() || r.Term != m.spent):
		return fmt.Errorf("it acts in term %d, and knows a record of term %d that names %v", m.spent, r.Term, r.Root)
	case m.acting.on && m.acting.until > m.acting.renewed+r.Lease:
		return fmt.Errorf("it acts for longer than a lease after it renewed")
	case m.acting.on && m.acting.renewed > m.now:
		return fmt.Errorf("it renewed in the future")
	case m.acting.on && (m.leaving || !m.successor.IsZero()):
		return fmt.Errorf("it acts, and has given up the root")
	case m.mine() && r.Term < m.spent:
		return fmt.Errorf("the record names it in term %d, and it was the root in term %d", r.Term, m.spent)
	case m.asked.kind == WriteRecord && !m.pending.on:
		return fmt.Errorf("it writes nothing")
	case m.pending.on && !m.pending.unknown && m.asked.kind != WriteRecord:
		return fmt.Errorf("a write is neither answered nor asked for")
	case m.pending.on && m.pending.first > m.now:
		return fmt.Errorf("it will write in the future")
	case m.pending.on && m.pending.Record.Term < r.Term:
		return fmt.Errorf("it writes term %d over term %d", m.pending.Record.Term, r.Term)
	case m.pending.on && m.pending.Record.Ceiling < r.Ceiling:
		return fmt.Errorf("it writes a fence ceiling of %d over %d", m.pending.Record.Ceiling, r.Ceiling)
	case m.exists() != (r.Term > 0):
		return fmt.Errorf("version %v has term %d", m.known.Version, r.Term)
	case m.since > m.now || m.heard.at > m.now || m.echo > m.now:
		return fmt.Errorf("it heard from the future")
	}
	return nil
}
