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
	Fairness       float64           // Jain's index of the entries of those who ask: 1 all alike, 1/n one has all; 0: no entries, or Stopped
	// Stopped is for how long nobody has entered or left although somebody waited, if
	// that is the last tenth of the measured time or more, and nobody is inside by right:
	// the run is dead, and how equal the entries before were says nothing.
	Stopped     protocol.Duration
	Inversions  Inversions
	Starvation  Starvation
	Deadlines   Deadlines
	Overlaps    uint64 // with AllowOverlap: entries while another had a valid hold, over the whole run
	StaleFences uint64 // with AllowOverlap: entries whose fence was not above those before, likewise
	Overstayed  int    // holds that lasted longer than they were declared to: their process was paused

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
	Unserved Unserved
}

// Unserved are the requests of one participant that wait at the end.
type Unserved struct {
	Requests int
	Waited   protocol.Duration // together, so far
	Longest  protocol.Duration
}

// PriorityEntries are the entries of one priority.
type PriorityEntries struct {
	Priority int64
	Entries  int
	Victims  int    // of Inversions
	Waiting  Sample // from the request to the entry
	Unserved Sample // how long those have waited that wait at the end
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

// Waiting returns how long the requests of all priorities waited that were served.
func (r *Result) Waiting() *Sample {
	all := new(Sample)
	for i := range r.ByPriority {
		all.merge(&r.ByPriority[i].Waiting)
	}
	return all
}

// Waits returns how long the requests of all priorities waited, those that wait at the
// end included with what they have waited so far: they are censored, so its figures are
// lower bounds if there are any.
func (r *Result) Waits() *Sample {
	all := new(Sample)
	for i := range r.ByPriority {
		all.merge(r.ByPriority[i].Waits())
	}
	return all
}

// Waits is as Result.Waits, of one priority.
func (e *PriorityEntries) Waits() *Sample {
	all := new(Sample)
	all.merge(&e.Waiting)
	all.merge(&e.Unserved)
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
	fmt.Fprintf(&b, "%d entries in %s, %d messages (%.3f per entry), synchronization delay %s\n",
		r.Entries, seconds(r.Measured), r.Counted, r.PerEntry(), &r.SyncDelay)
	if n := r.Starvation.Waiting; n > 0 {
		fmt.Fprintf(&b, "waited %s, %d of them still\n", r.Waits(), n)
	}
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
	p := r.priority(c.priority)
	p.Entries++
	p.Waiting.add(waited)
	if victim {
		p.Victims++
		r.Inversions.Victims++
	}
}

// priority are the entries of p.
func (r *Result) priority(p int64) *PriorityEntries {
	i, found := slices.BinarySearchFunc(r.ByPriority, p, func(e PriorityEntries, p int64) int { return cmp.Compare(e.Priority, p) })
	if !found {
		r.ByPriority = slices.Insert(r.ByPriority, i, PriorityEntries{Priority: p})
	}
	return &r.ByPriority[i]
}

// unserved notes a request that waits at the end.
func (r *Result) unserved(c *call, waited protocol.Duration) {
	r.Starvation.Waiting++
	r.Starvation.Longest = max(r.Starvation.Longest, waited)
	u := &r.ByNode[c.node].Unserved
	u.Requests++
	u.Waited += waited
	u.Longest = max(u.Longest, waited)
	r.priority(c.priority).Unserved.add(waited)
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
