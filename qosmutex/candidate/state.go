package candidate

import (
	"slices"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// Clone returns a machine that behaves as m does from here on and shares nothing with
// it that either may change.
func (m *Machine) Clone() *Machine {
	c := *m
	c.Machine, c.lease, c.told = m.Machine.Clone(), m.lease.Clone(), slices.Clone(m.told)
	return &c
}

// AppendState appends a canonical form of everything that decides what m does from now
// on, as [padme.Machine.AppendState] does. It MUST have nothing left to say to itself
// or to ask, as after its driver has done what [Machine] demands.
func (m *Machine) AppendState(dst []byte, now protocol.Time, names *canonical.Names) []byte {
	w := canonical.Writer{B: m.Machine.AppendState(dst, now, names), Now: now, Names: names}
	w.B = m.lease.AppendState(w.B, now, names)
	if m.announce != 0 {
		w.Left(m.announceAt)
	}
	return w.B
}
