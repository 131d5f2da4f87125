package qosmutex

import (
	"time"

	"padme/qosmutex/protocol"
)

// Decision explains a grant of the root: what the root knew when it decided. It is a
// report, part of a [State], and only the latest one of a resource is kept. A relay that
// uses a passing token makes its own decision, which Event.How and State.How report.
type Decision struct {
	At      time.Time `json:"at"`               // by the root's wall clock
	Models  string    `json:"models"`           // in force
	How     string    `json:"how"`              // how the token comes to Granted: see Event
	Granted Waiter    `json:"granted"`          // the chosen request
	Fence   string    `json:"fence"`            // decimal, the first of the grant
	Fences  uint64    `json:"fences"`           // how many fences the grant has; each entry made on it has one of them
	Place   int       `json:"place"`            // of Granted in Queue, from 1; 0: it is not among those shown
	Waiting int       `json:"waiting"`          // requests known to wait at that time, including Granted
	Queue   []Waiter  `json:"queue,omitempty"`  // the first 16 at that time, in the order of service; empty if Granted was alone
	Retain  bool      `json:"retain,omitempty"` // Granted may keep the token and enter again
	// Outdated: under Direct, the token went on before the change of the order came to the
	// participant that had it.
	Outdated bool `json:"outdated,omitempty"`
}

// Covers reports whether an entry with this fence was made on the grant.
func (d *Decision) Covers(fence uint64) bool {
	first := parseFence(d.Fence)
	return first != 0 && fence >= first && fence-first < d.Fences
}

// decided is the latest decision about a resource, until it is published.
type decided struct {
	raw   protocol.Decision
	at    time.Time
	stale bool      // shown is not of raw
	shown *Decision // never changed, so that states with the same one are equal
}

// note takes a decision of the machine, whose memory that of d is.
func (n *decided) note(d *protocol.Decision) {
	queue := append(n.raw.Queue[:0], d.Queue...)
	n.raw, n.at, n.stale = *d, time.Now(), true
	n.raw.Queue = queue
}

// decisionOf is the latest decision as it is published; nil: none is known. The caller
// holds mu.
func (t *Topic) decisionOf(n *notice) *Decision {
	d := &n.decided
	if !d.stale {
		return d.shown
	}
	r := &d.raw
	s := &Decision{
		At: d.at.UTC(), Models: r.Models.String(), How: r.How.String(), Granted: t.waiterOf(&r.Chosen),
		Fence: formatFence(r.Fences.Next), Fences: r.Fences.End - r.Fences.Next, Place: r.Place, Waiting: r.Waiting,
		Retain: r.Retained, Outdated: r.Outdated,
	}
	if r.Waiting > 1 || r.Place != 1 {
		for i := range r.Queue {
			s.Queue = append(s.Queue, t.waiterOf(&r.Queue[i]))
		}
	}
	d.stale, d.shown = false, s
	return s
}

// waiterOf is a waiting request as it is published. The caller holds mu.
func (t *Topic) waiterOf(w *protocol.Waiter) Waiter {
	is := Waiter{
		Priority: w.Priority, Any: w.Any, Clock: w.Turn, By: w.By.String(), Level: int(w.Level), Arrival: w.Arrival,
		Patience: w.Patience, Exhausted: w.Exhausted, Passed: w.Passed,
	}
	is.Participant, is.Via = asker(w.ID.Node.ID, w.Client)
	if w.Deadline != 0 { // rounded, or two states would differ by the time of a step
		is.Deadline = time.Now().Add(time.Duration(w.Deadline - t.clock())).Round(time.Second / 10).UTC()
	}
	return is
}
