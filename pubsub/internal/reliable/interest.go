package reliable

import (
	"cmp"
)

// A narrow reader has one instance, to whose topic alone it subscribes. Of the
// numbers of a writer it sees only some, so its writers tell it with each sample
// which number the instance had before, and count what they hold for it by the
// instance.

// begin has a reader start with what there is, or with what comes now.
func (s *Sender) begin(r *remoteReader) {
	if r.base = s.seq; r.historic {
		r.base = 0
	}
	r.reliable, r.until = !r.loose || r.historic, s.seq
	r.acked, r.last = r.base, r.base
	if r.instance == "" {
		return
	}
	for seq, h := range s.held {
		if h.key == r.instance {
			r.last = max(r.last, seq)
		}
	}
}

// interest counts the reliable readers which want an instance, and reports whether
// one should not be sent more. previous is one
// more than a number after which the instance was not written; 0 if no narrow
// reader wants to know. The least such number that is known is that of the last
// sample; a reader that has only come since then knows a higher one, which to
// others would be a sample that they lack.
func (s *Sender) interest(key string) (readers int, previous uint64, crowded bool) {
	var written, unwritten uint64
	for _, r := range s.readers {
		crowded = crowded || r.crowded
		switch {
		case !r.reliable:
		case r.instance == "":
			readers++
		case r.instance == key:
			readers++
			if r.last > r.base { // a sample that was there
				written = max(written, r.last+1)
			} else if unwritten == 0 || r.last < unwritten {
				unwritten = r.last + 1
			}
		}
	}
	return readers, cmp.Or(written, unwritten), crowded
}

// accountFor notes a sample for the narrow readers of its instance.
func (s *Sender) accountFor(key string) {
	for _, r := range s.readers {
		if r.instance == key {
			r.last = s.seq
		}
	}
}

// wants reports whether a held sample is for r.
func (r *remoteReader) wants(h *heldSample) bool {
	return h != nil && (r == nil || r.instance == "" || r.instance == h.key)
}

// reached is up to where r has all that it wants.
func (s *Sender) reached(r *remoteReader) uint64 {
	if r.instance != "" && r.acked >= r.last {
		return s.seq
	}
	return r.acked
}

// extent is what a heartbeat to r tells: from where samples are held, and the
// last one.
func (s *Sender) extent(r *remoteReader) (first, last uint64) {
	if r.instance == "" {
		return s.low, s.seq
	}
	return min(s.low, r.last+1), r.last
}
