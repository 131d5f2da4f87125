package padme

import "padme/qosmutex/protocol"

// counters are [protocol.Counters] in a sixth of the memory: the kinds that only
// other algorithms send are left out, the numbers sent are kept modulo 2^16 with
// the wraps noted aside, and so is what never happens to most participants.
type counters struct {
	sent       [protocol.KindHandover + 1]uint16
	expiriesIn uint16                   // as far as it goes
	wraps      map[protocol.Kind]uint64 // nil until something was sent 2^16 times
	entries    uint64
	rare       *rare // nil: all zero
}

// rare counts what is out of the ordinary.
type rare struct {
	losses, stale, resent, invalid, expiries, syncs, regenerated, returned, offPath, moves, terms, adopted uint64
}

// count returns the counters of what is out of the ordinary.
func (m *Machine) count() *rare {
	if m.counters.rare == nil {
		m.counters.rare = &rare{}
	}
	return m.counters.rare
}

// countSent counts a message of PADME.
func (m *Machine) countSent(k protocol.Kind) {
	c := &m.counters
	if c.sent[k]++; c.sent[k] == 0 {
		if c.wraps == nil {
			c.wraps = map[protocol.Kind]uint64{}
		}
		c.wraps[k]++
	}
}

func (m *Machine) counted() protocol.Counters {
	c := &m.counters
	var r rare
	if c.rare != nil {
		r = *c.rare
	}
	all := protocol.Counters{
		Entries: c.entries, Losses: r.losses, Stale: r.stale, Resent: r.resent, Invalid: r.invalid, Expiries: r.expiries,
		Syncs: r.syncs, Regenerated: r.regenerated, Returned: r.returned, OffPath: r.offPath, Moves: r.moves,
		ExpiriesIn: uint64(c.expiriesIn), Terms: r.terms, Adopted: r.adopted,
	}
	for k, n := range c.sent {
		all.Sent[k] = c.wraps[protocol.Kind(k)]<<16 + uint64(n)
	}
	return all
}
