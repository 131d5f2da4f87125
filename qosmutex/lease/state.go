package lease

import (
	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// Clone returns a machine that behaves as m does from here on and shares nothing with
// it that either may change.
func (m *Machine) Clone() *Machine {
	c := *m // what it points to, and its slices, are never changed
	return &c
}

// AppendState appends a canonical form of everything that decides what m does from now
// on: two machines of one Config with the same form behave alike, up to names and the
// numbers of requests. Instants are relative to now, and as far away as matters.
func (m *Machine) AppendState(b []byte, now protocol.Time, names *canonical.Names) []byte {
	w := canonical.Writer{B: b, Now: now, Names: names}
	m.write(&w)
	return w.B
}

// write appends the whole state; what is not in use is zero, and looks the same everywhere.
func (m *Machine) write(w *canonical.Writer) {
	if w.Is(m.departed) {
		return
	}
	w.Flags(m.began, m.read, m.look, m.leaving, m.barred, m.heard.on, m.pending.on, m.acting.on, m.wanted != nil, m.echo != 0)
	far := m.cfg.wait(m.lease()) + (maxRank+1)*(m.lease()/8)
	m.known.write(w)
	w.Age(m.since, far)
	m.heard.version.write(w)
	w.Age(m.heard.at, far)
	w.Flags(m.heard.at <= m.asked.at)
	w.Uint(uint64(m.asked.kind), uint64(m.cfg.Rank))
	if m.pending.on {
		m.pending.write(w, m.lease(), far, m.spent)
	}
	w.Left(m.again)
	w.Age(m.lastGet, m.lease()/2)
	w.Left(m.acting.until)
	w.Age(m.acting.renewed, m.lease())
	if m.spent == 0 { // else it is not read again
		for _, term := range m.cfg.HeldIn {
			w.Named(canonical.SortTerm, term)
		}
	}
	if m.cfg.FirstTerm != 0 {
		w.Age(m.acting.began, 2*m.cfg.grace(m.ttl()))
		w.Age(m.born, m.cfg.grace(m.ttl()))
	}
	w.Named(canonical.SortTerm, m.spent)
	w.Named(canonical.SortTerm, m.later)
	w.Age(m.echo, m.lease())
	if m.wanted != nil {
		w.Settings(m.wanted)
	}
	w.Named(canonical.SortFence, m.fence)
	w.Node(m.successor)
	w.Left(m.leaveBy)
	w.Node(m.dead)
	w.Age(m.deadAt, far)
	if !m.exists() && m.began {
		w.Named(canonical.SortFence, m.wall())
		w.Age(m.born, m.cfg.grace(m.cfg.TTL))
		w.Age(m.hearing, m.cfg.Listen)
	}
	if w.Is(m.other.until != 0) {
		w.Left(m.other.until)
		w.Uint(m.other.claim.Register)
		w.Epoch(m.other.claim.Epoch)
		w.Int(int64(m.other.claim.TTL))
		w.Flags(m.other.claim.Root)
	}
}

// AppendState appends the canonical form of what the register has.
func (e *Entry) AppendState(b []byte, names *canonical.Names) []byte {
	w := canonical.Writer{B: b, Names: names}
	e.write(&w)
	return w.B
}

func (v Version) write(w *canonical.Writer) {
	w.B = append(w.B, v.Domain[:]...)
	w.Named(canonical.SortVersion, v.Counter)
	w.Named(canonical.SortNonce, v.Nonce)
}

func (e *Entry) write(w *canonical.Writer) {
	e.Version.write(w)
	w.Record(&e.Record)
}

func (p *pending) write(w *canonical.Writer, lease, far protocol.Duration, spent uint64) {
	w.Flags(p.unknown, p.Renewal, p.restart)
	p.Old.write(w)
	w.Record(&p.Record)
	w.Named(canonical.SortNonce, p.Nonce)
	w.Age(p.first, lease)
	if p.Record.Term > spent { // else it appoints no root
		w.Age(p.heard, far)
		w.Named(canonical.SortFence, p.fence)
	}
}
