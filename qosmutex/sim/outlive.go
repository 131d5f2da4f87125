package sim

import "padme/qosmutex/protocol"

// A keeper is a machine that notes what it is inside of for the next one in its place.
// Somebody outside of the process goes by such a hold: when the process ends, he goes on
// by it until it would have ended, or for as long as the next process goes on with it.
type keeper interface {
	Keeps() []protocol.Held
}

// kept are the Refs of the holds that outlive the machine of n.
func (n *node) kept() (refs []uint64) {
	if k, ok := n.machine.(keeper); ok {
		for _, h := range k.Keeps() {
			refs = append(refs, h.Ref)
		}
	}
	return refs
}

// outlive has the hold of a call go on without a process, until then on its node's clock.
func (s *Sim) outlive(slot int32, until protocol.Time) {
	c := &s.calls[slot]
	n, ref := &s.nodes[c.node], c.ref
	c.outside, c.until, c.again = true, until, false
	c.leaves = c.leaves || c.hold == Forever // whoever was to tell it to leave knew of the process
	s.At(n.instant(until, s.now), func() {
		switch slot, ok := s.find(ref); {
		case !ok || !s.calls[slot].outside:
		case n.local(s.now) < s.calls[slot].until: // that of another process, or the clock was set back
			s.outlive(slot, s.calls[slot].until)
		default:
			s.drop(slot)
			s.gone[ref] = true
		}
	})
}

// goesOn takes a hold that another process has noted, and reports whether g is one.
func (s *Sim) goesOn(i int32, g *protocol.Granted) bool {
	slot, ok := s.find(g.Ref)
	ok = ok && s.calls[slot].outside
	if !ok && !s.gone[g.Ref] {
		return false
	}
	n, r := &s.nodes[i], s.resource(g.Resource)
	if g.Fence != r.fence {
		s.violate("%s goes on inside %s with fence %d, and somebody entered with %d", n.ID, r.name, g.Fence, r.fence)
	}
	s.note(&Record{Event: Entered, Node: n.ID, ID: g.ID, Priority: g.Priority, Resource: g.Resource, Fence: g.Fence, Grant: g.Grant, Note: "goes on"})
	s.result.GoneOn++
	if ok {
		c := &s.calls[slot]
		c.outside, c.until, c.clock = false, g.Until, g.ID.Clock
		if c.leaves {
			s.At(s.now, func() {
				if slot, ok := s.find(g.Ref); ok && !s.calls[slot].outside {
					s.leave(slot)
				}
			})
		}
		return true
	}
	machine, ref := n.machine, g.Ref // nobody goes by it any more
	s.At(s.now, func() {
		if n.machine == machine && s.gone[ref] {
			delete(s.gone, ref)
			s.in = protocol.Input{Kind: protocol.Leave, Ref: ref}
			s.feed(i)
		}
	})
	return true
}

// keep lets what is noted outlive the process of node i, which is about to end.
func (s *Sim) keep(i int32) {
	for _, ref := range s.nodes[i].kept() {
		if slot, ok := s.find(ref); ok && s.calls[slot].inside && !s.calls[slot].outside {
			s.outlive(slot, s.holdUntil(slot))
		}
	}
}
