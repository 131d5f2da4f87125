package lease

import (
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// propose takes a participant's choice of settings. Declared ones replace defaults; two
// different declarations disagree, unless the later one is meant as a change.
func (m *Machine) propose(d Declaration, out *Output) error {
	rec := m.known.Record
	rec.Settings, rec.DeclaredBy = d.Settings, d.By
	if err := rec.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	inForce, declared, by := &m.known.Record.Settings, m.known.Record.Declared, m.known.Record.DeclaredBy
	if m.declaration != nil {
		inForce, declared, by = &m.declaration.Settings, true, m.declaration.By
	}
	switch same := sameSettings(inForce, &d.Settings); {
	case same && declared:
	case !same && declared && !d.Change:
		out.Disagreement = &Disagreement{InForce: *inForce, InForceBy: by, Declared: d.Settings, DeclaredBy: d.By}
	default:
		d.Settings.Resources = slices.Clone(d.Settings.Resources)
		m.declaration = &d
	}
	return nil
}

func disagreement(r *protocol.Record, declared *protocol.Settings, by string) *Disagreement {
	return &Disagreement{InForce: r.Settings, InForceBy: r.DeclaredBy, Declared: *declared, DeclaredBy: by}
}

// declare puts a declaration into a record.
func declare(r *protocol.Record, s *protocol.Settings, by string) {
	if !sameSettings(&r.Settings, s) {
		version := r.Settings.Version + 1
		r.Settings = *s
		r.Settings.Version = version
	}
	r.Declared, r.DeclaredBy = true, by
}

func sameSettings(a, b *protocol.Settings) bool {
	return a.Models == b.Models && a.Open == b.Open && slices.Equal(a.Resources, b.Resources)
}

// sameMeaning reports whether only the root needs to know that b replaced a.
func sameMeaning(a, b *protocol.Record) bool {
	return a.Term == b.Term && a.Root == b.Root && a.Declared == b.Declared && a.DeclaredBy == b.DeclaredBy &&
		a.Settings.Version == b.Settings.Version && sameSettings(&a.Settings, &b.Settings)
}

// same reports whether two records are equal.
func same(a, b *protocol.Record) bool {
	return sameMeaning(a, b) && a.Place == b.Place && a.Lease == b.Lease && a.TTL == b.TTL && a.Ceiling == b.Ceiling
}
