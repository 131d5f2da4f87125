package lease

import (
	"slices"

	"padme/qosmutex/protocol"
)

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

// same reports whether two records are equal.
func same(a, b *protocol.Record) bool {
	return a.Term == b.Term && a.Root == b.Root && a.Place == b.Place && a.Lease == b.Lease && a.TTL == b.TTL && a.Ceiling == b.Ceiling &&
		a.Declared == b.Declared && a.DeclaredBy == b.DeclaredBy && a.Settings.Version == b.Settings.Version && sameSettings(&a.Settings, &b.Settings)
}
