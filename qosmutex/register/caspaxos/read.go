package caspaxos

import "math/bits"

// clear forgets what was counted, but for the keys that are read.
func (o *op) clear() {
	items := make([]item, len(o.keys))
	for i := range o.items {
		if o.items[i].read {
			items[i] = o.items[i]
		}
	}
	o.items = items
}

// open returns the keys that are not read yet: all of a write.
func (o *op) open() []string {
	if o.writes != nil {
		return o.keys
	}
	keys := make([]string, 0, len(o.keys))
	for i := range o.items {
		if !o.items[i].read {
			keys = append(keys, o.keys[i])
		}
	}
	return keys
}

// count takes what a voter has accepted.
func (it *item) count(voter uint8, s *Slot) {
	switch c := s.Accepted.Compare(it.best.Accepted); {
	case c > 0:
		it.best, it.same = *s, voter
	case c == 0:
		it.same |= voter
	}
}

// chosen reports whether a majority has accepted the state, or nothing at all. What
// was accepted in the configuration before was copied: two voters may have copied a
// state that was never chosen, and a third one a higher one.
func (m *Machine) chosen(it *item) bool {
	b := it.best.Accepted
	return bits.OnesCount8(it.same) >= m.config.majority() && (b.IsZero() || b.Config == m.config.Number)
}

// mostReads is how often a read asks without a ballot, which disturbs no write. Where a majority
// does not agree, a write is usually under way.
const mostReads = 3

// read answers once a majority has agreed on every key. Of those on which it does not, it has
// the state written again in the end.
func (m *Machine) read(o *op) {
	all := true
	for i := range o.items {
		it := &o.items[i]
		if it.read = it.read || m.chosen(it); it.read {
			it.outcome.State = it.best.State
		}
		all = all && it.read
	}
	switch {
	case all:
		m.finished(o)
	case o.reads < mostReads:
		o.phase, o.again = waiting, m.now+m.opts.Backoff
	default:
		m.prepare(o)
	}
}
