package sim

import "padme/qosmutex/protocol"

// Forever is the Hold of a request whose application leaves only when told to.
const Forever = protocol.Never

// Request is one wish of an application.
type Request struct {
	Resource string
	Hold     protocol.Duration // how long it stays inside, told to the machine beforehand; Forever: until Sim.Leave
	Priority int64             // with Fixed
	Fixed    bool              // use Priority, not the participant's
	Try      bool              // do not wait
	Within   protocol.Duration // be inside within this time; 0: no deadline
	GiveUp   bool              // withdraw when Within has passed
	Done     func()            // called as an action, as with At, when the request is over: left, lost, denied or given up, not by a crash
}

// call is a request from when it is made until the application has left.
type call struct {
	ref      uint64
	node     int32
	events   int8 // eventLeave and eventGiveUp to come for this slot
	again    bool // the workload asks again afterwards
	fixed    bool // keeps its priority when the participant's changes
	inside   bool
	outside  bool // inside, and its process has ended: see outlive
	leaves   bool // outside: the application wants to leave
	over     bool // kept only until those events have come
	told     bool // Sim.done has what to call afterwards
	victim   bool // was overtaken while it had another priority
	ripe     bool // has waited for as long as the granter may not know of it
	wanted   *resource
	at       *resource // that it is inside of
	hold     protocol.Duration
	since    protocol.Time // when it was made; once inside, when it entered
	until    protocol.Time // inside: when the hold ends on its node's clock, if its session does not end before; 0: then only
	deadline protocol.Time // Never: none
	priority int64
	stamp    uint64 // entries that wanted had seen when it was given its priority
	clock    uint64 // of its RequestID
	fence    uint64
}

// A Ref is never used twice, and finds its call without a map: a running number
// above the slot.
const (
	slotBits = 24
	maxCalls = 1 << slotBits
)

// find returns the slot of the call ref, unless it is over.
func (s *Sim) find(ref uint64) (slot int32, ok bool) {
	slot = int32(ref % maxCalls)
	ok = int(slot) < len(s.calls) && s.calls[slot].ref == ref && !s.calls[slot].over
	return slot, ok
}

func (s *Sim) request(i int32, r *Request, again bool) uint64 {
	n := &s.nodes[i]
	slot := s.callSlot()
	if s.err != nil {
		return 0
	}
	s.lastRef++
	ref := s.lastRef<<slotBits | uint64(slot)
	c := &s.calls[slot]
	*c = call{
		ref: ref, node: i, again: again, fixed: r.Fixed, wanted: s.resource(r.Resource), hold: r.Hold,
		since: s.now, deadline: protocol.Never, priority: n.priority,
	}
	if r.Fixed {
		c.priority = r.Priority
	}
	if r.Within > 0 {
		c.deadline = s.now + r.Within
	}
	if r.Done != nil {
		c.told = true
		s.done[ref] = r.Done
	}
	s.result.asked(i, s.measuring())
	s.waits(slot)
	if r.GiveUp && r.Within > 0 {
		c.events++
		s.schedule(event{at: c.deadline + 1, kind: eventGiveUp, node: i, slot: slot}) // at the deadline it may still enter
	}
	if !s.quiet {
		s.note(&Record{Event: Requested, Node: n.ID, Resource: r.Resource, Priority: c.priority})
	}
	s.in = protocol.Input{
		Kind: protocol.Acquire, Ref: ref, Resource: r.Resource, Priority: c.priority, Fixed: r.Fixed, Try: r.Try,
		Within: r.Within,
	}
	if r.Hold != Forever {
		s.in.Hold = r.Hold
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
	if len(s.calls) == maxCalls {
		s.failf("more than %d requests at once: the load is beyond what the lock can serve", maxCalls)
		return 0
	}
	s.calls = append(s.calls, call{})
	return int32(len(s.calls) - 1)
}

// waits notes that a call waits; served, that it no longer does.
func (s *Sim) waits(slot int32) {
	c := &s.calls[slot]
	c.wanted.waiting++
	s.asks(c.node, c.wanted, +1)
	s.join(c.wanted, slot)
	s.load.wait(s, +1)
}

func (s *Sim) served(slot int32) {
	c := &s.calls[slot]
	c.wanted.waiting--
	s.asks(c.node, c.wanted, -1)
	c.wanted.overtaking.quit(c)
	s.load.wait(s, -1)
}

// drop forgets a call that is over.
func (s *Sim) drop(slot int32) {
	c := &s.calls[slot]
	if c.inside {
		s.remove(c.at, slot)
		s.load.stayed(s, c)
	} else {
		s.served(slot)
		s.unwanted(c.wanted)
	}
	if c.told {
		if s.nodes[c.node].machine != nil {
			s.At(s.now, s.done[c.ref])
		}
		delete(s.done, c.ref)
	}
	if c.over = true; c.events == 0 {
		s.freeCalls = append(s.freeCalls, slot)
	}
}

// granted lets an application in.
func (s *Sim) granted(i int32, g *protocol.Granted) {
	if s.goesOn(i, g) {
		return
	}
	n := &s.nodes[i]
	slot, ok := s.find(g.Ref)
	if !ok || s.calls[slot].node != i || s.calls[slot].inside {
		s.violate("%s enters %s for a request that is not waiting (ref %d)", n.ID, g.Resource, g.Ref)
		return
	}
	c := &s.calls[slot]
	if c.wanted.name != g.Resource && c.wanted.name != protocol.Any {
		s.violate("%s asked for %s and enters %s", n.ID, c.wanted.name, g.Resource)
		return
	}
	s.served(slot)
	c.at = c.wanted
	if c.wanted.name != g.Resource {
		c.at = s.resource(g.Resource)
	}
	waited := s.now - c.since
	s.load.moved = s.now
	c.inside, c.clock, c.fence, c.since, c.until = true, g.ID.Clock, g.Fence, s.now, g.Until
	if !s.quiet {
		s.note(&Record{
			Event: Entered, Node: n.ID, Kind: s.cause, ID: g.ID, Priority: g.Priority,
			Resource: g.Resource, Fence: g.Fence, Grant: g.Grant,
		})
	}
	s.enter(c.at, slot)
	s.unwanted(c.wanted)
	overtook := s.overtake(c)
	if s.measuring() {
		s.result.entered(c, waited, overtook)
		s.result.Deadlines.entered(c, s.now)
	}
	if c.hold != Forever {
		c.events++
		s.schedule(event{at: s.now + c.hold, kind: eventLeave, node: i, slot: slot})
	}
}

// spent notes that an event of the call has come. If the call is over, that may
// free its slot, and nothing is left to do.
func (s *Sim) spent(slot int32) (over bool) {
	c := &s.calls[slot]
	c.events--
	if c.over && c.events == 0 {
		s.freeCalls = append(s.freeCalls, slot)
	}
	return c.over
}

// finish ends the stay of an application that has been inside long enough.
func (s *Sim) finish(slot int32) {
	switch {
	case s.spent(slot):
	case s.calls[slot].outside: // nobody is there to hear it
		s.calls[slot].leaves = true
	default:
		s.leave(slot)
	}
}

// giveUp withdraws a request that still waits although its deadline has passed.
func (s *Sim) giveUp(slot int32) {
	if !s.spent(slot) && !s.calls[slot].inside {
		s.withdraw(slot, "its deadline has passed")
	}
}

func (s *Sim) withdraw(slot int32, why string) {
	c := s.calls[slot]
	s.note(&Record{Event: Withdrawn, Node: s.nodes[c.node].ID, Resource: c.wanted.name, Note: why})
	if s.measuring() && s.now > c.deadline {
		s.result.Deadlines.miss()
	}
	s.drop(slot)
	s.in = protocol.Input{Kind: protocol.Withdraw, Ref: c.ref}
	s.feed(c.node)
	s.again(&c)
}

func (s *Sim) leave(slot int32) {
	c := s.calls[slot]
	n := &s.nodes[c.node]
	if !s.quiet {
		s.note(&Record{Event: Left, Node: n.ID, ID: protocol.RequestID{Node: n.self(), Clock: c.clock}, Resource: c.at.name, Fence: c.fence})
	}
	s.drop(slot)
	s.left(c.at)
	s.in = protocol.Input{Kind: protocol.Leave, Ref: c.ref}
	s.feed(c.node)
	s.again(&c)
}

// leaving reports whether the input being handled is the leave of ref.
func (s *Sim) leaving(ref uint64) bool { return s.in.Kind == protocol.Leave && s.in.Ref == ref }

// withdrawing reports whether the input being handled takes ref back.
func (s *Sim) withdrawing(ref uint64) bool { return s.in.Kind == protocol.Withdraw && s.in.Ref == ref }

// lost tells an application that its hold is over.
func (s *Sim) lost(i int32, l *protocol.Loss) {
	if s.leaving(l.Ref) {
		s.result.LostHolds++
		s.note(&Record{Event: HoldLost, Node: s.nodes[i].ID, ID: l.ID, Resource: l.Resource, Fence: l.Fence})
		return
	}
	if s.gone[l.Ref] {
		delete(s.gone, l.Ref)
		return
	}
	slot, ok := s.find(l.Ref)
	if !ok || s.calls[slot].node != i || !s.calls[slot].inside {
		s.violate("%s loses a hold that it does not have (ref %d)", s.nodes[i].ID, l.Ref)
		return
	}
	c := s.calls[slot]
	s.result.LostHolds++
	s.note(&Record{Event: HoldLost, Node: s.nodes[i].ID, ID: l.ID, Resource: l.Resource, Fence: l.Fence})
	s.drop(slot)
	s.again(&c)
}

// confirmed lets a hold last as long as its session.
func (s *Sim) confirmed(i int32, ref uint64) {
	slot, ok := s.find(ref)
	switch {
	case ok && s.calls[slot].node == i && s.calls[slot].inside:
		s.calls[slot].until = 0
	case !s.leaving(ref):
		s.violate("%s is confirmed a hold that it does not have (ref %d)", s.nodes[i].ID, ref)
	}
}

// denied tells an application that its request is refused.
func (s *Sim) denied(i int32, d *protocol.Denial) {
	if s.withdrawing(d.Ref) {
		return // it was given up before
	}
	slot, ok := s.find(d.Ref)
	if !ok || s.calls[slot].node != i || s.calls[slot].inside {
		s.violate("%s refuses a request that is not waiting (ref %d)", s.nodes[i].ID, d.Ref)
		return
	}
	c := s.calls[slot]
	s.result.Denied++
	if s.measuring() && c.deadline != protocol.Never {
		s.result.Deadlines.denied(d.Reason, s.now > c.deadline)
	}
	s.note(&Record{Event: Denied, Node: s.nodes[i].ID, Resource: d.Resource, Note: d.Reason.String()})
	s.drop(slot)
	s.again(&c)
}
