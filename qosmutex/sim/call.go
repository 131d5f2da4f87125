package sim

import "padme/qosmutex/protocol"

// Forever is the Hold of a request whose application leaves only when told to.
const Forever = protocol.Never

// Request is one wish of an application.
type Request struct {
	Resource string
	Hold     protocol.Duration // how long it stays inside; Forever: until Sim.Leave
	Priority int64             // with Fixed
	Fixed    bool              // use Priority, not the participant's
	Try      bool              // do not wait
}

// call is a request from when it is made until the application has left.
type call struct {
	ref      uint64
	node     int32
	again    bool // the workload asks again afterwards
	inside   bool
	timed    bool   // an eventLeave for this slot is to come
	over     bool   // kept only until that event has come
	resource string // asked for
	at       *resource
	hold     protocol.Duration
	since    protocol.Time
	priority int64
	id       protocol.RequestID
	fence    uint64
}

// ask makes the next request of a participant's workload.
func (s *Sim) ask(i int32) {
	n := &s.nodes[i]
	n.asks--
	if n.machine == nil || s.now >= s.end() {
		return
	}
	w := n.workload
	r := Request{Resource: w.Resources[0], Hold: w.Hold + s.upTo(w.HoldExtra)}
	if len(w.Resources) > 1 {
		r.Resource = w.Resources[s.random.IntN(len(w.Resources))]
	}
	s.request(i, &r, true)
}

// askAt plans the next request of a workload.
func (s *Sim) askAt(i int32, t protocol.Time) {
	s.nodes[i].asks++
	s.schedule(event{at: t, kind: eventRequest, node: i})
}

// upTo draws a duration between 0 and d, both included.
func (s *Sim) upTo(d protocol.Duration) protocol.Duration {
	if d == 0 {
		return 0
	}
	return protocol.Duration(s.random.Int64N(int64(d) + 1))
}

func (s *Sim) request(i int32, r *Request, again bool) uint64 {
	n := &s.nodes[i]
	s.lastRef++
	ref := s.lastRef
	slot := s.callSlot()
	c := &s.calls[slot]
	*c = call{ref: ref, node: i, again: again, resource: r.Resource, hold: r.Hold, since: s.now, priority: n.priority}
	if r.Fixed {
		c.priority = r.Priority
	}
	s.slotOf[ref] = slot
	s.waiting(r.Resource, +1)
	s.note(Record{Event: Requested, Node: n.ID, Resource: r.Resource, Priority: c.priority})
	s.in = protocol.Input{
		Kind: protocol.Acquire, Ref: ref, Resource: r.Resource, Priority: c.priority, Fixed: r.Fixed, Try: r.Try,
	}
	s.feed(i)
	return ref
}

func (s *Sim) callSlot() int32 {
	if n := len(s.freeCalls); n > 0 {
		slot := s.freeCalls[n-1]
		s.freeCalls = s.freeCalls[:n-1]
		return slot
	}
	s.calls = append(s.calls, call{})
	return int32(len(s.calls) - 1)
}

// drop forgets a call that is over.
func (s *Sim) drop(slot int32) {
	c := &s.calls[slot]
	if c.inside {
		s.remove(c.at, slot)
	} else {
		s.waiting(c.resource, -1)
	}
	delete(s.slotOf, c.ref)
	if c.over = true; !c.timed {
		s.freeCalls = append(s.freeCalls, slot)
	}
}

// granted lets an application in.
func (s *Sim) granted(i int32, g *protocol.Granted) {
	n := &s.nodes[i]
	slot, ok := s.slotOf[g.Ref]
	if !ok || s.calls[slot].node != i || s.calls[slot].inside {
		s.violate("%s enters %s for a request that is not waiting (ref %d)", n.ID, g.Resource, g.Ref)
		return
	}
	c := &s.calls[slot]
	if c.resource != g.Resource && c.resource != protocol.Any {
		s.violate("%s asked for %s and enters %s", n.ID, c.resource, g.Resource)
		return
	}
	s.waiting(c.resource, -1)
	c.inside, c.id, c.fence, c.at = true, g.ID, g.Fence, s.resource(g.Resource)
	s.note(Record{
		Event: Entered, Node: n.ID, Kind: s.cause, ID: g.ID, Priority: g.Priority,
		Resource: g.Resource, Fence: g.Fence, Grant: g.Grant,
	})
	s.enter(c.at, slot)
	if s.measuring() {
		s.result.entered(i, g.Priority, s.now-c.since)
	}
	if c.hold != Forever {
		c.timed = true
		s.schedule(event{at: s.now + c.hold, kind: eventLeave, node: i, slot: slot})
	}
}

// finish ends the stay of an application that has been inside long enough, or
// frees the slot of one that is out already.
func (s *Sim) finish(slot int32) {
	c := &s.calls[slot]
	c.timed = false
	if c.over {
		s.freeCalls = append(s.freeCalls, slot)
		return
	}
	s.leave(slot)
}

func (s *Sim) leave(slot int32) {
	c := s.calls[slot]
	n := &s.nodes[c.node]
	s.note(Record{Event: Left, Node: n.ID, ID: c.id, Resource: c.at.name, Fence: c.fence})
	s.drop(slot)
	s.left(c.at)
	s.in = protocol.Input{Kind: protocol.Leave, Ref: c.ref}
	s.feed(c.node)
	s.again(&c)
}

// again plans the next request of a workload whose last one is over.
func (s *Sim) again(c *call) {
	n := &s.nodes[c.node]
	if c.again {
		s.askAt(c.node, s.now+n.workload.Think+s.upTo(n.workload.ThinkExtra))
	}
}

// leaving reports whether the input being handled is the leave of ref.
func (s *Sim) leaving(ref uint64) bool { return s.in.Kind == protocol.Leave && s.in.Ref == ref }

// lost tells an application that its hold is over.
func (s *Sim) lost(i int32, l *protocol.Loss) {
	if s.leaving(l.Ref) {
		s.result.LostHolds++
		s.note(Record{Event: HoldLost, Node: s.nodes[i].ID, ID: l.ID, Resource: l.Resource, Fence: l.Fence})
		return
	}
	slot, ok := s.slotOf[l.Ref]
	if !ok || s.calls[slot].node != i || !s.calls[slot].inside {
		s.violate("%s loses a hold that it does not have (ref %d)", s.nodes[i].ID, l.Ref)
		return
	}
	c := s.calls[slot]
	s.result.LostHolds++
	s.note(Record{Event: HoldLost, Node: s.nodes[i].ID, ID: l.ID, Resource: l.Resource, Fence: l.Fence})
	s.drop(slot)
	s.again(&c)
}

// denied tells an application that its request is refused.
func (s *Sim) denied(i int32, d *protocol.Denial) {
	slot, ok := s.slotOf[d.Ref]
	if !ok || s.calls[slot].node != i || s.calls[slot].inside {
		s.violate("%s refuses a request that is not waiting (ref %d)", s.nodes[i].ID, d.Ref)
		return
	}
	c := s.calls[slot]
	s.result.Denied++
	s.note(Record{Event: Denied, Node: s.nodes[i].ID, Resource: d.Resource, Note: d.Reason.String()})
	s.drop(slot)
	s.again(&c)
}
