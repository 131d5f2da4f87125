package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"padme/qosmutex/protocol"
)

// node is one participant as it runs.
type node struct {
	*Participant
	workload    *Workload
	machine     protocol.Machine // nil: not running
	candidate   Candidate        // that machine, if it can be the root
	slow        bool             // its register was, the last time
	incarnation uint64
	priority    int64 // as last set; a restarted participant keeps it

	wakeAt   protocol.Time // when the machine wants a tick, in simulated time
	tickAt   protocol.Time // when the one live tick event of the queue comes
	tickSlot int32         // which one it is; others are void
	idle     int32         // ticks in a row at one instant

	source rand.PCG // of what its workload draws
	asks   int32    // eventRequests to come
	conn   uint32   // number of the connection to the network
	group  int32    // of a Partition
	begun  bool     // has had its first tick
	placed bool     // has had a place in the topic since it was started
	cut    bool
	paused bool // what comes waits in Sim.deferred
	away   bool // does not reach the register
	acts   bool // is in Sim.roots
}

// maxIdle ticks at one instant are too many: the machine does not move on.
const maxIdle = 1000

// start makes a machine for the participant's next incarnation.
func (s *Sim) start(i int32) error {
	n := &s.nodes[i]
	n.incarnation++
	cfg := protocol.Config{
		Self:     n.self(),
		Priority: n.priority, Timing: s.scenario.Timing, Settings: s.scenario.Settings,
		Root: n.Root, Parent: n.Parent, Fanout: s.scenario.Fanout,
		Members: s.members, Parents: s.parents, Seed: mix(s.scenario.Seed, uint64(i)<<32|n.incarnation),
	}
	if s.now > 0 { // algorithms without a register start again above the wall clock
		cfg.FenceFloor, cfg.EpochFloor = uint64(s.now/protocol.Microsecond), n.incarnation
	}
	if s.scenario.Configure != nil {
		s.scenario.Configure(&cfg)
	}
	var err error
	if n.Candidate {
		n.candidate, err = s.candidateOf(n, cfg)
		n.machine = n.candidate
	} else {
		n.machine, err = s.algorithm.New(cfg)
	}
	if err != nil {
		return fmt.Errorf("sim: %s of %s: %w", s.algorithm.Name, n.ID, err)
	}
	n.begun, n.placed = false, false
	n.source.Seed(requestSeeds(s.scenario.Seed, int(i), n.incarnation))
	return nil
}

func (n *node) self() protocol.Node { return protocol.Node{ID: n.ID, Incarnation: n.incarnation} }

// local is what the clock of n shows at instant t.
func (n *node) local(t protocol.Time) protocol.Time {
	const million = 1_000_000
	return n.ClockOffset + t + t/million*n.drift() + t%million*n.drift()/million
}

func (n *node) drift() protocol.Time { return protocol.Time(n.ClockDrift) }

// beyond is later than any run gets: two spans of at most longest, by a clock that
// gains as much as it may.
const beyond protocol.Time = 1 << 62

// instant is the first instant from now on at which the clock of n shows at
// least local; Never if no run gets there.
func (n *node) instant(local, now protocol.Time) protocol.Time {
	const million = 1_000_000
	if local > beyond {
		return protocol.Never
	}
	t := local - n.ClockOffset
	if n.ClockDrift != 0 {
		t = protocol.Time(float64(t) / (1 + float64(n.ClockDrift)/million))
		for n.local(t) >= local { // rounding is off by very little
			t--
		}
		for n.local(t) < local {
			t++
		}
	}
	return max(t, now)
}

// feed gives s.in to the machine of node i and carries out what follows.
func (s *Sim) feed(i int32) {
	n := &s.nodes[i]
	if n.machine == nil || s.err != nil {
		return
	}
	if !n.begun { // the first Step of a machine is a Tick
		n.begun = true
		if in := s.in; in.Kind != protocol.Tick {
			s.in = protocol.Input{Kind: protocol.Tick}
			s.feed(i)
			s.in = in
		}
	}
	err := n.machine.Step(n.local(s.now), &s.in, &s.out)
	if err != nil {
		s.rejected(i, err)
	}
	s.follow(i)
}

// follow carries out what a machine's output says, and lets a candidate say to itself
// what it has to say, and ask the register.
func (s *Sim) follow(i int32) {
	s.carryOut(i)
	n := &s.nodes[i]
	if len(s.homeless) > 0 {
		s.settleIn(i)
	}
	if n.candidate == nil {
		s.wake(i, n.instant(s.out.WakeAt, s.now))
		return
	}
	for steps := 0; s.out.WakeAt <= n.local(s.now) && s.err == nil; steps++ {
		if steps > maxIdle {
			s.violate("%s %v", n.ID, errStuck)
			return
		}
		s.in = protocol.Input{Kind: protocol.Tick}
		s.cause = protocol.KindNone
		if err := n.machine.Step(n.local(s.now), &s.in, &s.out); err != nil {
			s.rejected(i, err)
		}
		s.carryOut(i)
	}
	s.wake(i, n.instant(s.out.WakeAt, s.now))
	s.checkRoots(i)
	s.consult(i)
}

// carryOut tells applications and network what an output says.
func (s *Sim) carryOut(i int32) {
	n := &s.nodes[i]
	for j := range s.out.Losses {
		s.lost(i, &s.out.Losses[j])
	}
	for j := range s.out.Messages {
		s.send(i, &s.out.Messages[j])
	}
	for _, ref := range s.out.Confirmed {
		s.confirmed(i, ref)
	}
	for j := range s.out.Grants {
		s.granted(i, &s.out.Grants[j])
	}
	for j := range s.out.Denials {
		s.denied(i, &s.out.Denials[j])
	}
	if !s.scenario.Fast {
		s.checkInvariants(n)
	}
	if s.contested > 0 && !s.scenario.AllowOverlap {
		s.checkExclusion()
	}
}

// rejected notes an input that the machine refused. Messages may be refused, and
// suspicions, which are hints that not every algorithm knows; the applications here
// never call wrongly, but one may leave a hold of which the machine sees only now
// that it has expired.
func (s *Sim) rejected(i int32, err error) {
	if slices.ContainsFunc(s.out.Losses, func(l protocol.Loss) bool { return s.leaving(l.Ref) }) ||
		slices.ContainsFunc(s.out.Denials, func(d protocol.Denial) bool { return s.withdrawing(d.Ref) }) {
		return // the two crossed
	}
	if s.in.Kind == protocol.Suspect {
		return
	}
	if s.in.Kind != protocol.Receive {
		s.violate("%s refused an input of kind %d: %v", s.nodes[i].ID, s.in.Kind, err)
		return
	}
	s.result.Rejected++
	if !s.quiet {
		s.note(&Record{Event: Rejected, Node: s.nodes[i].ID, Peer: s.in.Message.From.ID, Kind: s.in.Message.Kind, Note: err.Error()})
	}
}

// wake plans a tick at instant t. There is one live tick event per machine: a
// later wake-up waits for the earlier event, an earlier one makes it void.
func (s *Sim) wake(i int32, t protocol.Time) {
	n := &s.nodes[i]
	n.wakeAt = t
	if t >= n.tickAt {
		return
	}
	n.tickSlot++
	n.tickAt = t
	s.schedule(event{at: t, kind: eventTick, node: i, slot: n.tickSlot})
}

var errStuck = errors.New("asks again and again to be woken at an instant that is there already")

// tick wakes a machine, unless it has changed its mind since.
func (s *Sim) tick(i, slot int32) {
	n := &s.nodes[i]
	if slot != n.tickSlot {
		return
	}
	last := n.tickAt
	n.tickAt = protocol.Never
	if n.wakeAt > s.now {
		s.wake(i, n.wakeAt)
		return
	}
	s.in = protocol.Input{Kind: protocol.Tick}
	s.cause = protocol.KindNone
	s.feed(i)
	if n.tickAt > last {
		n.idle = 0
	} else if n.idle++; n.idle > maxIdle {
		s.violate("%s %v", n.ID, errStuck)
	}
}
