package reliable

import (
	"slices"

	"padme/pubsub/internal/wire"
)

// An instance is what a writer holds of one, by number, oldest first.
type instance struct {
	data   []uint64
	states []uint64 // changes of its state, which neither Depth nor MaxSamples counts among the data
}

// numbers are those of the data, or of the changes of state.
func (i *instance) numbers(what wire.Status) *[]uint64 {
	if what == wire.StatusData {
		return &i.data
	}
	return &i.states
}

// remove takes out a number. It reports whether nothing is left.
func (i *instance) remove(what wire.Status, seq uint64) (empty bool) {
	n := i.numbers(what)
	if at := slices.Index(*n, seq); at == 0 {
		*n = (*n)[1:]
	} else if at > 0 {
		*n = slices.Delete(*n, at, at+1)
	}
	return len(i.data) == 0 && len(i.states) == 0
}

// ofInstance is what is held of one.
func (s *Sender) ofInstance(key string) *instance {
	if i := s.history[key]; i != nil {
		return i
	}
	return &instance{}
}

// repeats returns the change of state that another one to the same makes needless; 0 if none does.
func (s *Sender) repeats(i *instance, what wire.Status) uint64 {
	for _, seq := range slices.Backward(i.states) {
		if what == wire.StatusData || len(i.data) > 0 && seq < i.data[len(i.data)-1] {
			break
		}
		if s.held[seq].status == what {
			return seq
		}
	}
	return 0
}

// full reports whether nothing of a kind may be held in addition. Changes of state are bounded by
// themselves: an instance must be able to end while its data are all that there is room for.
func (s *Sender) full(what wire.Status) bool {
	held := s.data
	if what != wire.StatusData {
		held = len(s.held) - s.data
	}
	return held >= s.qos.MaxSamples
}

// replaces reports whether keep last forgets something of the instance for a sample.
func (s *Sender) replaces(key string, what wire.Status) bool {
	i := s.ofInstance(key)
	return !s.qos.KeepAll && (what == wire.StatusData && len(i.data) >= s.qos.Depth || s.repeats(i, what) > 0)
}

// enter notes the sample that was just held, for keep last and for late joiners. What that takes
// out of the history goes at once, or if all is kept when every reader has it; so goes, of keep
// last, what an instance was before it was disposed of.
func (s *Sender) enter(key string, what wire.Status) {
	i := s.ofInstance(key)
	s.history[key] = i
	old, goes := s.repeats(i, what), s.release
	if s.qos.KeepAll {
		goes = func(seq uint64) { s.surplus = append(s.surplus, seq) }
	}
	before := len(i.states)
	n := i.numbers(what)
	*n = append(*n, s.seq)
	if old > 0 {
		goes(old)
	} else if what == wire.StatusDispose && s.qos.Historic && !s.qos.KeepAll {
		s.surplus = append(append(s.surplus, i.data...), i.states[:before]...)
	}
	most := s.qos.Depth
	if s.qos.KeepAll {
		most = s.qos.Late
	}
	if from := len(i.data) - most; what == wire.StatusData && most > 0 && from > 0 {
		gone, first := i.data[from-1], i.data[from]
		for _, seq := range slices.Clone(i.states) {
			if gone < seq && seq < first {
				goes(seq)
			}
		}
		goes(gone)
	}
}
