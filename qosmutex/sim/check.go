package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// ErrViolation is wrapped by the error of a run in which a machine broke a
// promise: two valid holds of one resource, a fence that does not rise, an
// invariant of the machine, an answer to a question that nobody asked.
var ErrViolation = errors.New("sim: violation")

// Violation says which promise was broken and what had happened just before.
type Violation struct {
	At      protocol.Time
	What    string
	History []Record // oldest first
}

func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v at %s: %s", ErrViolation, seconds(v.At), v.What)
	for i := range v.History {
		b.WriteString("\n\t")
		b.Write(v.History[i].Append(nil))
	}
	return b.String()
}

// Unwrap makes errors.Is(err, ErrViolation) hold.
func (v *Violation) Unwrap() error { return ErrViolation }

func (s *Sim) violate(format string, args ...any) {
	s.fail(&Violation{At: s.now, What: fmt.Sprintf(format, args...), History: s.history.list()})
}

// resource is what the simulator knows of one resource.
type resource struct {
	name    string
	waiting int     // requests for it, without those for Any
	holds   []int32 // slots of the calls inside
	fence   uint64  // of the last entry

	asking   int           // of them, requests that count for gaps
	declared bool          // in the Settings of the scenario
	gap      protocol.Time // since when somebody waits and nobody holds it; noGap: not now

	owed   bool // somebody waited when it was left
	leftAt protocol.Time

	overtaking overtaking
}

func (s *Sim) resource(name string) *resource {
	r := s.byName[name]
	if r == nil {
		r = &resource{name: name, declared: slices.Contains(s.scenario.Settings.Resources, name), gap: noGap}
		s.byName[name] = r
		s.resources = append(s.resources, r)
	}
	return r
}

// enter notes that a call is inside r and checks its fence. Whether it is alone
// there is checked when the whole output has been handled.
func (s *Sim) enter(r *resource, slot int32) {
	c := &s.calls[slot]
	if c.fence <= r.fence {
		if s.scenario.AllowOverlap {
			s.result.StaleFences++
		} else {
			s.violate("%s enters %s with fence %d, which is not above %d", s.nodes[c.node].ID, r.name, c.fence, r.fence)
		}
	}
	r.fence = max(r.fence, c.fence)
	if s.scenario.AllowOverlap && slices.ContainsFunc(r.holds, s.valid) {
		s.result.Overlaps++
	}
	r.holds = append(r.holds, slot)
	s.updateGap(r)
	if len(r.holds) == 2 {
		s.contested++
	}
	if r.owed && s.measuring() {
		s.result.SyncDelay.add(s.now - r.leftAt)
	}
	r.owed = false
}

func (s *Sim) remove(r *resource, slot int32) {
	if len(r.holds) == 2 {
		s.contested--
	}
	r.holds = slices.DeleteFunc(r.holds, func(h int32) bool { return h == slot })
	s.updateGap(r)
}

// left starts the clock of the synchronization delay if somebody waits for r.
func (s *Sim) left(r *resource) {
	r.owed = len(r.holds) == 0 && (r.waiting > 0 || s.any.waiting > 0)
	r.leftAt = s.now
}

// unwanted ends the wait for an entry to r, or for Any to every resource, if nobody
// waits any more: what comes later is no answer to the last leave.
func (s *Sim) unwanted(r *resource) {
	switch {
	case s.any.waiting > 0:
	case r != s.any:
		r.owed = r.owed && r.waiting > 0
	default:
		for _, r := range s.resources {
			r.owed = r.owed && r.waiting > 0
		}
	}
}

// holdUntil is the instant of its node's own clock below which the hold of a call is
// valid.
func (s *Sim) holdUntil(slot int32) protocol.Time {
	c := &s.calls[slot]
	if c.outside {
		return c.until
	}
	until := s.validUntil(&s.nodes[c.node])
	if c.until != 0 {
		until = min(until, c.until)
	}
	return until
}

// validUntil is the instant of n's own clock below which its session lasts. A
// machine without sessions says Never; that of a Static algorithm need not say.
func (s *Sim) validUntil(n *node) protocol.Time {
	if m, ok := n.machine.(interface{ ValidUntil() protocol.Time }); ok {
		return m.ValidUntil()
	}
	until := n.machine.Status().ValidUntil
	if until == 0 && s.algorithm.Static {
		return protocol.Never
	}
	return until
}

// valid reports whether the hold of a call counts: neither it nor its session is over,
// by the participant's own clock.
func (s *Sim) valid(slot int32) bool {
	n := &s.nodes[s.calls[slot].node]
	return n.local(s.now) < s.holdUntil(slot)
}

func (s *Sim) checkInvariants(n *node) {
	if m, ok := n.machine.(interface{ CheckInvariants() error }); ok {
		if err := m.CheckInvariants(); err != nil {
			s.violate("%s: %v", n.ID, err)
		}
	}
}

// checkExclusion looks at the resources with more than one hold. Only valid holds
// exclude each other.
func (s *Sim) checkExclusion() {
	for _, r := range s.resources {
		if len(r.holds) < 2 {
			continue
		}
		var valid []string
		for _, slot := range r.holds {
			if s.valid(slot) {
				n := &s.nodes[s.calls[slot].node]
				valid = append(valid, fmt.Sprintf("%s (fence %d, own clock %s, valid until %s)",
					n.ID, s.calls[slot].fence, seconds(n.local(s.now)), seconds(s.holdUntil(slot))))
			}
		}
		if len(valid) > 1 {
			s.violate("%d are inside %s: %s", len(valid), r.name, strings.Join(valid, ", "))
		}
	}
}
