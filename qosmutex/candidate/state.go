package candidate

import (
	"encoding/binary"
	"slices"

	"padme/qosmutex/lease"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// Clone returns a machine that behaves as m does from here on and shares nothing with
// it that either may change.
func (m *Machine) Clone() *Machine {
	c := *m
	c.Machine, c.lease, c.told = m.Machine.Clone(), m.lease.Clone(), slices.Clone(m.told)
	return &c
}

// AppendEntryState appends the canonical form of a record in the register.
func AppendEntryState(dst []byte, e *lease.Entry, names *padme.Names) []byte {
	return lease.AppendRecordState(dst, e, namer(names))
}

// namer leaves the numbers of package lease out, as those of package padme are. Terms
// stay.
func namer(names *padme.Names) lease.Namer {
	return func(sort lease.Sort, v uint64) uint64 {
		switch sort {
		case lease.SortCounter:
			names.Note(padme.SortVersion, v)
		case lease.SortNonce:
			names.Note(padme.SortNonce, v)
		case lease.SortFence:
			names.Note(padme.SortFence, v)
		default:
			return v
		}
		return 0
	}
}

// AppendState appends a canonical form of everything that decides what m does from now
// on, as [padme.Machine.AppendState] does. It MUST have nothing left to say to itself
// or to ask, as after its driver has done what [Machine] demands.
func (m *Machine) AppendState(dst []byte, now protocol.Time, names *padme.Names) []byte {
	b := m.Machine.AppendState(dst, now, names)
	b = m.lease.AppendState(b, now, namer(names))
	b = AppendEntryState(b, &m.known, names)
	b = append(b, byte(m.rank), byte(len(m.members)), byte(len(m.heir.ID)))
	b = append(b, m.heir.ID...)
	b = binary.AppendUvarint(b, m.heir.Incarnation)
	for _, f := range []bool{m.started, m.leaving, m.membersKnown, m.barred} {
		if f {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	if m.announce != 0 {
		b = binary.AppendVarint(b, int64(max(0, m.announceAt-now)))
	}
	return b
}
