package lease

import (
	"encoding/binary"

	"padme/qosmutex/protocol"
)

// Sort is a kind of number that only counts up and is compared with its like.
type Sort uint8

// Sorts of number in a machine's state.
const (
	SortCounter Sort = iota // of versions
	SortNonce               // of versions; only compared for equality
	SortTerm
	SortFence
)

// Namer replaces a number by a name: numbers that compare alike may get the same
// names in two states that are to count as one. Zero is named 0.
type Namer func(Sort, uint64) uint64

// Clone returns a machine that behaves as m does from here on and shares nothing with
// it that either may change.
func (m *Machine) Clone() *Machine {
	c := *m // what it points to, and its slices, are never changed
	return &c
}

// AppendState appends a canonical form of everything that decides what m does from now
// on: two machines of one Config with the same form behave alike, up to names and the
// numbers of requests. Instants are relative to now, and as far away as matters.
func (m *Machine) AppendState(b []byte, now protocol.Time, name Namer) []byte {
	s := scribe{b, now, name}
	s.flags(m.departed)
	if m.departed {
		return s.b
	}
	s.flags(m.other.until != 0)
	s.flags(m.began, m.read, m.look, m.leaving, m.heard.on, m.pending.on, m.reign.on, m.wish != nil, m.echoed)
	far := m.cfg.wait(m.lease()) + (maxRank+1)*(m.lease()/8)
	s.entry(&m.known)
	s.age(m.since, far)
	if m.heard.on {
		s.version(m.heard.version)
		s.age(m.heard.at, far)
		s.flags(m.heard.at <= m.asked.at)
	}
	s.b = append(s.b, byte(m.asked.kind), byte(m.cfg.Rank))
	if m.pending.on {
		s.pending(&m.pending, m.lease(), far, m.spent)
	}
	s.left(m.again)
	s.age(m.lastGet, m.lease()/2)
	if m.reign.on {
		s.left(m.reign.until)
		s.age(m.reign.renewed, m.lease())
		if m.cfg.FirstTerm != 0 {
			s.age(m.reign.began, 2*m.cfg.grace(m.ttl()))
		}
	}
	s.name(SortTerm, m.spent)
	s.name(SortTerm, m.later)
	if m.echoed {
		s.age(m.echo, m.lease())
	}
	if m.wish != nil {
		s.settings(&m.wish.Settings, m.wish.By)
	}
	s.name(SortFence, m.fence)
	s.node(m.heir)
	if m.leaving {
		s.left(m.leaveBy)
	}
	if s.node(m.dead); !m.dead.IsZero() {
		s.age(m.deadAt, far)
	}
	if !m.exists() && m.began {
		s.name(SortFence, m.wall())
		s.age(m.born, m.cfg.grace(m.cfg.TTL))
		s.age(m.hearing, m.cfg.Listen)
	}
	if m.other.until != 0 {
		s.left(m.other.until)
		s.name(SortTerm, m.other.claim.Epoch.Number)
		s.b = binary.AppendUvarint(binary.AppendUvarint(s.b, m.other.claim.Register), m.other.claim.Epoch.Tie)
		s.int(int64(m.other.claim.TTL))
		s.flags(m.other.told, m.other.claim.Root)
	}
	return s.b
}

// AppendRecordState appends the canonical form of what the register has.
func AppendRecordState(b []byte, e *Entry, name Namer) []byte {
	s := scribe{b: b, named: name}
	s.entry(e)
	return s.b
}

type scribe struct {
	b     []byte
	now   protocol.Time
	named Namer
}

func (s *scribe) flags(flags ...bool) {
	for _, f := range flags {
		if f {
			s.b = append(s.b, 1)
		} else {
			s.b = append(s.b, 0)
		}
	}
}

func (s *scribe) int(v int64)                  { s.b = binary.AppendVarint(s.b, v) }
func (s *scribe) name(sort Sort, v uint64)     { s.b = binary.AppendUvarint(s.b, s.named(sort, v)) }
func (s *scribe) left(until protocol.Time)     { s.int(int64(max(0, until-s.now))) }
func (s *scribe) age(since, far protocol.Time) { s.int(int64(min(s.now-since, far))) }

func (s *scribe) text(t string) {
	s.int(int64(len(t)))
	s.b = append(s.b, t...)
}

func (s *scribe) node(n protocol.Node) {
	s.text(n.ID)
	s.b = binary.AppendUvarint(s.b, n.Incarnation)
}

func (s *scribe) version(v Version) {
	s.b = append(s.b, v.Domain[:]...)
	s.name(SortCounter, v.Counter)
	s.name(SortNonce, v.Nonce)
}

func (s *scribe) entry(e *Entry) {
	s.version(e.Version)
	s.record(&e.Record)
}

func (s *scribe) record(r *protocol.Record) {
	s.name(SortTerm, r.Term)
	s.node(r.Root)
	s.text(r.Place)
	s.int(int64(r.Lease))
	s.int(int64(r.TTL))
	s.name(SortFence, r.Ceiling)
	s.flags(r.Declared)
	s.settings(&r.Settings, r.DeclaredBy)
	s.b = binary.AppendUvarint(s.b, r.Settings.Version)
}

func (s *scribe) settings(v *protocol.Settings, by string) {
	s.b = append(s.b, byte(v.Models.Priority), byte(v.Models.Request), byte(v.Models.Reply), byte(v.Models.Release))
	s.flags(v.Open)
	s.int(int64(len(v.Resources)))
	for _, name := range v.Resources {
		s.text(name)
	}
	s.text(by)
}

func (s *scribe) pending(p *pending, lease, far protocol.Duration, spent uint64) {
	s.flags(p.unknown, p.Renewal)
	s.version(p.Old)
	s.record(&p.Record)
	s.name(SortNonce, p.Nonce)
	s.age(p.first, lease)
	if p.Record.Term > spent { // else it appoints nobody
		s.age(p.heard, far)
		s.name(SortFence, p.fence)
	}
}
