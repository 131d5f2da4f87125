package explore

import (
	"hash/maphash"
	"sync"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// visited holds the states that were visited. Of each it keeps 64 bits, and of what
// may still go wrong in it one bit for each combination. A state is known, too, if it
// was visited with at least as much that may still go wrong: whatever happens in it
// happened there, and was checked there.
//
// It may be used concurrently.
type visited struct {
	shards [64]shard
	radix  [kindEnd]int8 // of faults: how many values their budget has; else 0
	covers [64]uint64    // by combination: those that include it
}

// shard holds the states whose fingerprints end alike.
type shard struct {
	mu     sync.Mutex
	states map[uint64]uint64
}

// maxCombinations is how many combinations of faults a search can tell apart.
const maxCombinations = 64

// newVisited makes one for a validated configuration.
func newVisited(cfg *Config) *visited {
	v := &visited{}
	for i := range v.shards {
		v.shards[i].states = map[uint64]uint64{}
	}
	for k := range kindEnd {
		if n := cfg.Budget[k]; k.isFault() && n > 0 {
			v.radix[k] = int8(n + 1)
		}
	}
	n := cfg.Budget.combinations()
	for i := range n {
		for j := range n {
			if v.includes(j, i) {
				v.covers[i] |= 1 << j
			}
		}
	}
	return v
}

// combinations is how many combinations of faults may be left, with and without one
// that has happened.
func (b Budget) combinations() int {
	n := 2
	for k, most := range b {
		if k.isFault() && most > 0 {
			n *= most + 1
		}
	}
	return n
}

// combination numbers what may still go wrong in w.
func (v *visited) combination(w *world) int {
	n := 0
	for k, radix := range v.radix {
		if radix > 0 {
			n = n*int(radix) + int(w.budget[k])
		}
	}
	n *= 2
	if !w.broken {
		n++ // more is demanded of it
	}
	return n
}

// includes reports whether a has at least as much of everything as b.
func (v *visited) includes(a, b int) bool {
	if a%2 < b%2 {
		return false
	}
	a, b = a/2, b/2
	for k := len(v.radix) - 1; k >= 0; k-- {
		if radix := int(v.radix[k]); radix > 0 {
			if a%radix < b%radix {
				return false
			}
			a, b = a/radix, b/radix
		}
	}
	return true
}

// knows reports whether w, whose key is given, is known.
func (v *visited) knows(key uint64, w *world) bool {
	s := &v.shards[key%uint64(len(v.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[key]&v.covers[v.combination(w)] != 0
}

// add notes w and reports whether it was not known.
func (v *visited) add(key uint64, w *world) bool {
	s, c := &v.shards[key%uint64(len(v.shards))], v.combination(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	with := s.states[key]
	if with&v.covers[c] != 0 {
		return false
	}
	s.states[key] = with | 1<<c
	return true
}

// hasher computes fingerprints of states, 64 bits wide and different in each run of
// the program: among n states the chance that any two share one, so that what follows
// from one of them is left out, is below n²/2⁶⁵: one in thirty million for a million
// states, one in nine hundred for two hundred million.
type hasher struct {
	seed  maphash.Seed
	names canonical.Names
	b     []byte
}

func newHasher(seed maphash.Seed) *hasher {
	h := &hasher{seed: seed}
	h.names.Slack = [...]uint64{
		canonical.SortClock: 0, canonical.SortFence: 16, canonical.SortGrant: 1, canonical.SortBeacon: 1, canonical.SortLink: 32,
		canonical.SortArrival: 1, canonical.SortVersion: 2, canonical.SortSettings: 2, canonical.SortTerm: 1 << 62, canonical.SortNonce: 0,
	}
	return h
}

// key is the fingerprint of everything but the faults that may still happen.
func (h *hasher) key(w *world) uint64 {
	left := 1
	for i := range w.nodes {
		if !w.healed {
			left += w.cfg.Requests - int(w.nodes[i].asked)
		}
	}
	h.names.Slack[canonical.SortClock] = uint64(left) // no clock is advanced more often
	if w.cfg.Models.Release == protocol.Retain {      // a grant of the next one's fences lies as far ahead
		h.names.Slack[canonical.SortFence] = 2 * protocol.RetainedFences
	}
	if w.cfg.Models.Release == protocol.Direct { // so do those of a schedule that changes
		h.names.Slack[canonical.SortFence] = 8 * protocol.ScheduleLength
	}
	h.names.Reset()
	h.write(w)
	return maphash.Bytes(h.seed, h.b)
}

func (h *hasher) write(w *world) {
	h.names.Note(canonical.SortFence, w.fence)
	b := h.b[:0]
	for k, left := range w.budget {
		if !Kind(k).isFault() {
			b = append(b, byte(left))
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		asked := n.asked
		if w.healed {
			asked = 0
		} else {
			h.names.Note(canonical.SortClock, n.gone.Clock)
		}
		b = append(b, byte(n.flags), byte(n.flags>>8), n.runs, asked, byte(n.state))
		if !n.is(crashed) {
			b = n.machine.AppendState(b, w.now, &h.names)
		}
	}
	for _, ch := range w.channels {
		b = append(b, byte(len(ch)))
		for _, f := range ch {
			b = append(b, byte(min((w.now-f.sent)/tick, 1<<7)))
			b = canonical.AppendMessage(b, w.now, &h.names, f.msg)
		}
	}
	b = w.record.appendState(b, w.now, &h.names)
	b = w.register.appendState(b, w.now, &h.names)
	h.b = h.names.AppendNames(b)
}
