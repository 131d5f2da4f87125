package sim

import "padme/qosmutex/protocol"

// Deadlines count what became of the requests that had one. A request that still
// waits before its deadline is not counted yet.
type Deadlines struct {
	Met     int // entered within the time that they gave
	Refused int // at once, because it could not be promised (ReasonUnattainable)
	// missed entered late, were told that it is too late (ReasonMissed), or ended
	// without an entry when it was too late: withdrawn, denied for another reason, or
	// their participant crashed; overdue wait although it is too late.
	missed, overdue int
}

// Missed is how many were not refused, but not inside in time.
func (d *Deadlines) Missed() int { return d.missed + d.overdue }

// Admitted is how many were not refused: those met and those missed.
func (d *Deadlines) Admitted() int { return d.Met + d.Missed() }

func (d *Deadlines) entered(c *call, now protocol.Time) {
	switch {
	case c.deadline == protocol.Never:
	case now > c.deadline:
		d.missed++
	default:
		d.Met++
	}
}

func (d *Deadlines) miss() { d.missed++ }

func (d *Deadlines) denied(why protocol.Reason, late bool) {
	switch {
	case why == protocol.ReasonUnattainable:
		d.Refused++
	case late || why == protocol.ReasonMissed:
		d.missed++
	}
}
