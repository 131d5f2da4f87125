package lease

import (
	"slices"

	"padme/qosmutex/protocol"
)

// plan is what to ask of the register next.
type plan struct {
	at     protocol.Time
	write  bool // record; else read
	record protocol.Record
}

var nothing = plan{at: protocol.Never}

// next says what to ask of the register next, and when.
func (m *Machine) next() plan {
	p := m.want()
	// A write whose outcome is unknown is repeated as it was, or, if something else is
	// wanted now, the record is asked.
	if m.pending.unknown && !m.repeats(&p) {
		p = plan{at: m.now}
	}
	if p.at != protocol.Never {
		p.at = max(p.at, m.again)
	}
	return p
}

// repeats reports whether p is the pending write again.
func (m *Machine) repeats(p *plan) bool {
	return p.write && p.at != protocol.Never && same(&p.record, &m.pending.Record) && m.known.Version == m.pending.Old
}

// want is next, whatever is pending.
func (m *Machine) want() plan {
	r := m.known.Record
	switch {
	case !m.read:
		return plan{at: m.now}
	case m.acting.on:
		return m.renewal()
	case m.mine() && (m.leaving || !m.successor.IsZero()):
		r.Term++
		r.Root, r.Place = m.successor, ""
		return plan{m.now, true, r}
	case m.leaving:
		return nothing
	case !m.exists() && !m.cfg.Create:
		return plan{at: m.lastGet + m.lease()/2}
	case !m.hears():
		return nothing
	case m.Elsewhere():
		return plan{at: m.other.until}
	case !m.exists():
		return m.begin(max(m.now, m.hearing+m.cfg.Listen), m.cfg.record(m.wall()))
	case m.mine(): // nobody else is the root, so it need not wait
		r.Term = max(r.Term, m.spent+1)
		return m.begin(m.now, r)
	}
	return m.succession()
}

// renewal is what the root writes.
func (m *Machine) renewal() plan {
	lease := m.lease()
	p := plan{at: m.acting.renewed + lease/4, write: true, record: m.known.Record}
	if m.wanted != nil && m.wanted.Version > p.record.Settings.Version {
		p.record.Settings, p.at = *m.wanted, m.now
	}
	if m.fence > p.record.Ceiling {
		p.record.Ceiling += (m.fence - p.record.Ceiling + block - 1) / block * block
		p.at = m.now
	}
	if !m.hears() {
		p.at = protocol.Never
	}
	if look := m.lastGet + lease/8; (m.look || m.heard.on) && p.at > max(look, m.now) { // another candidate is said to have written
		return plan{at: look}
	}
	return p
}

// succession is what a candidate does while another one is the root, and after it.
func (m *Machine) succession() plan {
	lease, newest := m.lease(), m.since
	if m.heard.on {
		newest = m.heard.at
	}
	due := newest + m.cfg.wait(lease)
	switch root := m.known.Record.Root; {
	case root.IsZero():
		due = m.since
	case root == m.dead:
		due = m.deadAt
	}
	due += protocol.Time(min(m.cfg.Rank, maxRank)) * (lease / 8)
	if p := m.known.Record.Place; p != "" && p == m.cfg.Place {
		due = m.since
	}
	look := max(newest+lease*3/8, m.lastGet+lease/8) // a beacon is missing: is there a version that we don't know?
	if m.look || m.heard.on && due <= m.now {
		look = m.lastGet + lease/8
	}
	if look < due || m.heard.on {
		return plan{at: look}
	}
	r := m.known.Record
	r.Term++
	return m.begin(due, r)
}

// begin has a record begin a term of this participant's own.
func (m *Machine) begin(at protocol.Time, r protocol.Record) plan {
	r.Root, r.Place, r.Ceiling = m.cfg.Self, m.cfg.Place, r.Ceiling+block
	m.above(&r)
	return plan{at, true, r}
}

// ask asks what is due, and says when to step even if nothing else happens.
func (m *Machine) ask(out *Output) {
	if m.departed {
		return
	}
	if m.acting.on {
		out.WakeAt = m.acting.until
	}
	if m.leaving {
		out.WakeAt = min(out.WakeAt, m.leaveBy)
	}
	if m.asked.kind != NoRequest {
		return
	}
	p := m.next()
	if p.at > m.now {
		out.WakeAt = min(out.WakeAt, p.at)
		return
	}
	m.asked = asked{ReadRecord, m.now}
	if p.write {
		m.asked.kind = WriteRecord
		if !m.repeats(&p) {
			m.pending = m.attempt(&p)
		}
		out.Request.Write = m.pending.Write
	} else {
		m.lastGet = m.now
	}
	out.Request.Kind = m.asked.kind
}

// attempt begins a write.
func (m *Machine) attempt(p *plan) pending {
	w := pending{on: true, first: m.now, heard: m.since, fence: p.record.Ceiling - block}
	w.Write = Write{Old: m.known.Version, Record: p.record, Nonce: m.nonce(), Renewal: same(&p.record, &m.known.Record)}
	old := &m.known.Record
	w.restart = m.exists() && m.cfg.Place != "" && old.Place == m.cfg.Place && slices.Contains(m.cfg.HeldIn, old.Term)
	if !m.exists() {
		w.heard = m.born
	}
	if m.other.until != 0 {
		w.heard = m.now
	}
	return w
}

// nonce draws the next of this run's nonces (SplitMix64). It is never 0.
func (m *Machine) nonce() uint64 {
	for {
		m.nonces++
		z := m.cfg.Seed + m.nonces*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		if z ^= z >> 31; z != 0 {
			return z
		}
	}
}

// same reports whether two records are equal.
func same(a, b *protocol.Record) bool {
	return a.Term == b.Term && a.Root == b.Root && a.Place == b.Place && a.Lease == b.Lease && a.TTL == b.TTL && a.Ceiling == b.Ceiling &&
		a.Settings.Same(&b.Settings)
}
