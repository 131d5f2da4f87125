package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// Result is what was measured while the workload ran.
type Result struct {
	Measured   protocol.Duration // how long
	Entries    int
	ByNode     []Entries // in the order of Scenario.Participants
	ByPriority []Entries // most important first; the priority in force at the entry
	Sent       [256]uint64
	Counted    uint64 // messages sent that the papers count
	SyncDelay  Sample // from a leave to the next entry, if somebody waited

	LostMessages uint64 // by the network, a cut or a crash, over the whole run
	Rejected     uint64 // messages that machines refused, over the whole run
	LostHolds    uint64
	Denied       uint64
}

// Entries are the entries of one participant or of one priority.
type Entries struct {
	Node     string // in ByNode
	Priority int64
	Entries  int
	Waiting  Sample // from the request to the entry
}

// PerEntry is the number of counted messages for each entry; 0 if there was none.
func (r *Result) PerEntry() float64 {
	if r.Entries == 0 {
		return 0
	}
	return float64(r.Counted) / float64(r.Entries)
}

// AtNode returns how many entries the participant id made.
func (r *Result) AtNode(id string) int {
	for i := range r.ByNode {
		if r.ByNode[i].Node == id {
			return r.ByNode[i].Entries
		}
	}
	return 0
}

// AtPriority returns how many entries were made with priority p.
func (r *Result) AtPriority(p int64) int {
	for i := range r.ByPriority {
		if r.ByPriority[i].Priority == p {
			return r.ByPriority[i].Entries
		}
	}
	return 0
}

// String is a table for people.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d entries in %s, %d messages (%.3f per entry), synchronisation delay %s\n",
		r.Entries, seconds(r.Measured), r.Counted, r.PerEntry(), &r.SyncDelay)
	for i := range r.ByPriority {
		p := &r.ByPriority[i]
		fmt.Fprintf(&b, "priority %d: %d entries, waited %s\n", p.Priority, p.Entries, &p.Waiting)
	}
	for k, n := range r.Sent {
		if n > 0 {
			fmt.Fprintf(&b, "%v: %d\n", protocol.Kind(k), n)
		}
	}
	return b.String()
}

func (r *Result) prepare(participants []Participant) {
	for i := range participants {
		r.ByNode = append(r.ByNode, Entries{Node: participants[i].ID, Priority: participants[i].Priority})
	}
}

func (r *Result) entered(node int32, priority int64, waited protocol.Duration) {
	r.Entries++
	r.ByNode[node].Entries++
	r.ByNode[node].Waiting.add(waited)
	i, found := slices.BinarySearchFunc(r.ByPriority, priority, func(e Entries, p int64) int { return cmp.Compare(e.Priority, p) })
	if !found {
		r.ByPriority = slices.Insert(r.ByPriority, i, Entries{Priority: priority})
	}
	r.ByPriority[i].Entries++
	r.ByPriority[i].Waiting.add(waited)
}

// Sample is a set of measured durations.
type Sample struct {
	values []protocol.Duration
	sorted bool
	sum    float64
}

func (s *Sample) add(d protocol.Duration) {
	s.values = append(s.values, d)
	s.sorted = false
	s.sum += float64(d)
}

// Count is how many were measured.
func (s *Sample) Count() int { return len(s.values) }

// Mean is their mean; 0 if there are none.
func (s *Sample) Mean() protocol.Duration {
	if len(s.values) == 0 {
		return 0
	}
	return protocol.Duration(s.sum / float64(len(s.values)))
}

// Quantile is the least value that at least the share q of them does not exceed:
// 0 the least, 0.5 the median, 1 the greatest; 0 if there are none.
func (s *Sample) Quantile(q float64) protocol.Duration {
	if len(s.values) == 0 {
		return 0
	}
	if !s.sorted {
		slices.Sort(s.values)
		s.sorted = true
	}
	i := int(q*float64(len(s.values))+0.999999) - 1
	return s.values[min(max(i, 0), len(s.values)-1)]
}

func (s *Sample) String() string {
	return fmt.Sprintf("mean %s median %s max %s (%d)", seconds(s.Mean()), seconds(s.Quantile(0.5)), seconds(s.Quantile(1)), s.Count())
}
