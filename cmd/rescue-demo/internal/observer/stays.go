package observer

import (
	"slices"
	"time"
)

// Stay is the time that a participant had a frequency.
type Stay struct {
	Frequency, Participant string
	Priority               int64
	Fence                  uint64
	From, To               time.Time // zero To: it has it still, as far as is known
	Lost                   bool      // it was not given back
}

// Stays returns the last n stays, in the order in which they began.
func (h *History) Stays(n int) []Stay {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []entry
	for _, entries := range h.byFrequency(time.Time{}) {
		all = append(all, entries...)
	}
	slices.SortFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	all = all[max(0, len(all)-n):]
	stays := make([]Stay, 0, len(all))
	for _, e := range all {
		s := Stay{
			Frequency: e.resource, Participant: e.participant, Priority: e.priority, Fence: e.fence,
			From: e.at, To: e.end, Lost: e.lost,
		}
		if known := h.entries[e.entryID]; known.end.IsZero() && !e.end.After(e.at) {
			s.To = time.Time{}
		}
		stays = append(stays, s)
	}
	return stays
}
