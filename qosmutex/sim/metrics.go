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
	Events     uint64            // from the beginning of the simulation
	Entries    int
	ByNode     []NodeEntries     // in the order of Scenario.Participants
	ByPriority []PriorityEntries // most important first; the priority that was asked with
	Sent       [256]uint64       // by Kind; one to everybody counts once
	Counted    uint64            // messages sent that the papers count
	Upkeep     uint64            // the others
	SyncDelay  Sample            // from a leave to the next entry, if somebody waited all that time

	Inside         protocol.Duration // sum of the critical sections, so far as they were measured
	AverageWaiting float64           // how many requests wait, on average over time
	Fairness       float64           // Jain's index of the entries of those who ask: 1 all alike, 1/n one has all; 0: no entries
	Inversions     Inversions
	Starvation     Starvation
	Deadlines      Deadlines
	Overlaps       uint64 // with AllowOverlap: entries while another had a valid hold, over the whole run
	StaleFences    uint64 // with AllowOverlap: entries whose fence was not above those before, likewise
	Overstayed     int    // holds that lasted longer than they were declared to: their process was paused

	LostMessages uint64 // by the network, a cut or a crash, over the whole run
	Rejected     uint64 // messages that machines refused, over the whole run
	LostHolds    uint64 // over the whole run
	GoneOn       uint64 // over the whole run: holds that went on in another process
	Denied       uint64 // over the whole run
}

// NodeEntries are the entries of one participant.
type NodeEntries struct {
	Node     string
	Priority int64
	Entries  int
	Asked    int               // requests made
	Waited   protocol.Duration // of the entries together, from request to entry
	Longest  protocol.Duration // wait of one of them
}

// PriorityEntries are the entries of one priority.
type PriorityEntries struct {
	Priority int64
	Entries  int
	Victims  int    // of Inversions
	Waiting  Sample // from the request to the entry
}

// Starvation is about who waits when the run is over.
type Starvation struct {
	Waiting int               // requests
	Longest protocol.Duration // how long one of them has waited
	Nodes   []string          // participants that asked and never entered
}

// PerEntry is the number of counted messages for each entry; 0 if there was none.
func (r *Result) PerEntry() float64 {
	if r.Entries == 0 {
		return 0
	}
	return float64(r.Counted) / float64(r.Entries)
}

// Rate is the share of the measured time that was spent inside critical sections,
// summed over the resources: the critical section execution rate of the SLA paper.
func (r *Result) Rate() float64 {
	if r.Measured == 0 {
		return 0
	}
	return float64(r.Inside) / float64(r.Measured)
}

// Waiting returns how long the requests of all priorities waited.
func (r *Result) Waiting() *Sample {
	all := new(Sample)
	for i := range r.ByPriority {
		all.merge(&r.ByPriority[i].Waiting)
	}
	return all
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
	fmt.Fprintf(&b, "inside %.1f %% of the time, %.2f waiting on average, fairness %.3f\n", 100*r.Rate(), r.AverageWaiting, r.Fairness)
	if v := &r.Inversions; v.Pending > 0 {
		fmt.Fprintf(&b, "inversions: %d pending (%d known) by %d entries, %d victims\n", v.Pending, v.Known, v.Overtakers, v.Victims)
	}
	if d := &r.Deadlines; d.Admitted()+d.Refused > 0 {
		fmt.Fprintf(&b, "deadlines: %d admitted, %d refused, %d missed\n", d.Admitted(), d.Refused, d.Missed())
	}
	if r.Overlaps+r.StaleFences > 0 {
		fmt.Fprintf(&b, "overlaps: %d entries while another was inside, %d fences that did not rise\n", r.Overlaps, r.StaleFences)
	}
	for i := range r.ByPriority {
		p := &r.ByPriority[i]
		fmt.Fprintf(&b, "priority %d: %d entries, %d victims, waited %s\n", p.Priority, p.Entries, p.Victims, &p.Waiting)
	}
	if v := &r.Starvation; v.Waiting > 0 {
		fmt.Fprintf(&b, "at the end %d wait, the longest for %s; never served: %s\n", v.Waiting, seconds(v.Longest), orNobody(v.Nodes))
	}
	for k, n := range r.Sent {
		if n > 0 {
			fmt.Fprintf(&b, "%v: %d\n", protocol.Kind(k), n)
		}
	}
	return b.String()
}

func orNobody(nodes []string) string {
	const most = 10
	switch {
	case len(nodes) == 0:
		return "nobody"
	case len(nodes) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ", "), len(nodes)-most)
	}
	return strings.Join(nodes, ", ")
}

func (r *Result) prepare(participants []Participant) {
	r.ByNode = make([]NodeEntries, len(participants))
	for i := range participants {
		r.ByNode[i] = NodeEntries{Node: participants[i].ID, Priority: participants[i].Priority}
	}
}

func (r *Result) asked(node int32, measuring bool) {
	if measuring {
		r.ByNode[node].Asked++
	}
}

func (r *Result) sent(k protocol.Kind) {
	r.Sent[k]++
	if k.Counted() {
		r.Counted++
	} else {
		r.Upkeep++
	}
}

func (r *Result) entered(c *call, waited protocol.Duration, victim bool) {
	r.Entries++
	n := &r.ByNode[c.node]
	n.Entries++
	n.Waited += waited
	n.Longest = max(n.Longest, waited)
	i, found := slices.BinarySearchFunc(r.ByPriority, c.priority, func(e PriorityEntries, p int64) int { return cmp.Compare(e.Priority, p) })
	if !found {
		r.ByPriority = slices.Insert(r.ByPriority, i, PriorityEntries{Priority: c.priority})
	}
	p := &r.ByPriority[i]
	p.Entries++
	p.Waiting.add(waited)
	if victim {
		p.Victims++
		r.Inversions.Victims++
	}
}

// jain is the fairness index of Jain, Chiu and Hawe over the entries of the
// participants that ask: (Σx)²/(n·Σx²).
func (r *Result) jain(asks func(i int) bool) float64 {
	var n, sum, squares float64
	for i := range r.ByNode {
		if asks(i) {
			x := float64(r.ByNode[i].Entries)
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}
