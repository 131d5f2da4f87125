package sim

import (
	"fmt"
	"strconv"
	"strings"

	"padme/qosmutex/protocol"
)

// At calls f at instant t, before anything else that happens then. f may call the
// methods below. An action that cannot be done (an unknown participant, a crash
// of one that has crashed) ends the run with an error.
func (s *Sim) At(t protocol.Time, f func()) {
	s.actions = append(s.actions, f)
	s.schedule(event{at: t, kind: eventAction, slot: int32(len(s.actions) - 1)})
}

// Request makes the application of participant id ask, and returns the name of
// the request for Leave and Withdraw.
func (s *Sim) Request(id string, r Request) uint64 {
	i, ok := s.acting(id, "asks for "+r.Resource)
	if !ok {
		return 0
	}
	return s.request(i, &r, false)
}

// Leave makes the application leave the critical section of request ref.
func (s *Sim) Leave(ref uint64) {
	slot, ok := s.find(ref)
	if !ok || !s.calls[slot].inside || s.nodes[s.calls[slot].node].paused {
		s.fail(fmt.Errorf("%w: request %d cannot leave: it is not inside, or its participant is paused", ErrScenario, ref))
		return
	}
	s.leave(slot)
}

// Inside reports whether request ref is inside now.
func (s *Sim) Inside(ref uint64) bool {
	slot, ok := s.find(ref)
	return ok && s.calls[slot].inside
}

// Withdraw makes the application give up request ref. One that is inside already,
// or over, is left alone, as when the two cross.
func (s *Sim) Withdraw(ref uint64) {
	slot, ok := s.find(ref)
	if !ok || s.calls[slot].inside {
		return
	}
	if _, ok := s.acting(s.nodes[s.calls[slot].node].ID, "withdraws"); ok {
		s.withdraw(slot, "")
	}
}

// SetPriority changes the priority of a participant, and of those of its requests
// that wait and are not Fixed.
func (s *Sim) SetPriority(id string, priority int64) {
	i, ok := s.acting(id, "changes its priority")
	if !ok {
		return
	}
	s.nodes[i].priority = priority
	for slot := range s.calls {
		if c := &s.calls[slot]; c.node == i && c.ref != 0 && !c.over && !c.inside && !c.fixed {
			c.wanted.overtaking.reprioritize(c, priority)
		}
	}
	s.note(&Record{Event: Reprioritized, Node: id, Priority: priority})
	s.in = protocol.Input{Kind: protocol.Prioritize, Priority: priority}
	s.feed(i)
}

// SetModels makes the application of a participant change the models.
func (s *Sim) SetModels(id string, m protocol.Models) {
	s.configure(id, m.String(), &protocol.Settings{Models: m, ModelsBy: id})
}

// SetResources makes the application of a participant change which resources there are,
// and whether there are any others.
func (s *Sim) SetResources(id string, resources []string, open bool) {
	note := strings.Join(resources, " ")
	if open {
		note += " *"
	}
	s.configure(id, note, &protocol.Settings{Resources: resources, Open: open, ResourcesBy: id})
}

func (s *Sim) configure(id, note string, wanted *protocol.Settings) {
	i, ok := s.acting(id, "asks for "+note)
	if !ok {
		return
	}
	s.note(&Record{Event: SettingsAsked, Node: id, Note: note})
	s.in = protocol.Input{Kind: protocol.Change, Lease: &protocol.Lease{Settings: *wanted}}
	s.feed(i)
}

// Suspect makes the transport of participant by tell its machine that of has ended,
// whether it has or not: a last will, or a false alarm.
func (s *Sim) Suspect(of protocol.Node, by string) {
	i, ok := s.acting(by, "suspects "+of.ID)
	if !ok {
		return
	}
	s.note(&Record{Event: Suspected, Node: by, Peer: of.ID, Note: "incarnation " + strconv.FormatUint(of.Incarnation, 10)})
	s.in = protocol.Input{Kind: protocol.Suspect, Node: of}
	s.feed(i)
}

// Node names the incarnation of participant id that runs or ran last.
func (s *Sim) Node(id string) protocol.Node {
	if i, ok := s.member(id, "is named"); ok {
		return s.nodes[i].self()
	}
	return protocol.Node{}
}

// SetDrift makes the clock of a participant gain ppm parts per million from now on.
// It does not jump.
func (s *Sim) SetDrift(id string, ppm int64) {
	i, ok := s.running(id, "drifts")
	if !ok {
		return
	}
	if ppm < -maxDrift || ppm > maxDrift {
		s.failf("%q cannot drift by %d parts per million: the bound is ±%d", id, ppm, maxDrift)
		return
	}
	s.note(&Record{Event: Drifted, Node: id, Note: strconv.FormatInt(ppm, 10) + " ppm"})
	n := &s.nodes[i]
	shown := n.local(s.now)
	n.ClockDrift = ppm
	n.ClockOffset += shown - n.local(s.now)
	if !n.paused { // a machine is woken by its own clock; one that is paused looks at it when it goes on
		s.in = protocol.Input{Kind: protocol.Tick}
		s.feed(i)
	}
}

// Depart asks a participant to leave the topic. It goes on running, so that it can
// say goodbye; its workload ends. It comes back by Crash and Restart.
func (s *Sim) Depart(id string) {
	i, ok := s.acting(id, "departs")
	if !ok {
		return
	}
	s.nodes[i].workload = new(Workload)
	for slot := range s.calls {
		if s.calls[slot].node == i {
			s.calls[slot].again = false
		}
	}
	s.note(&Record{Event: Departed, Node: id})
	s.in = protocol.Input{Kind: protocol.Depart}
	s.feed(i)
}

// Crash stops a participant and its application for ever. What it has sent
// arrives; what is on its way to it does not.
func (s *Sim) Crash(id string) {
	i, ok := s.running(id, "crashes")
	if !ok {
		return
	}
	s.note(&Record{Event: Crashed, Node: id})
	n := &s.nodes[i]
	s.keep(i)
	n.machine, n.candidate, n.cut, n.away = nil, nil, false, false
	s.checkRoots(i)
	delete(s.stalls, i)
	n.conn++
	n.tickSlot++
	n.tickAt, n.wakeAt = protocol.Never, protocol.Never
	n.asks = 0
	delete(s.homeless, i)
	for slot := range s.calls {
		if c := &s.calls[slot]; c.ref != 0 && !c.over && !c.outside && c.node == i {
			if !c.inside && s.now > c.deadline && s.measuring() {
				s.result.Deadlines.miss()
			}
			s.drop(int32(slot))
		}
	}
	s.release(i)
}

// Restart starts a participant that has crashed as a new incarnation, with its
// workload and the priority that it had. It asks after the think time of its workload,
// but not before it has a place in the topic.
func (s *Sim) Restart(id string) {
	i, ok := s.place(id)
	if !ok || s.nodes[i].machine != nil {
		s.fail(fmt.Errorf("%w: %q cannot restart: it is not a participant that has crashed", ErrScenario, id))
		return
	}
	if s.nodes[i].Root && !s.algorithm.Static {
		s.failf("%q cannot restart: it is the Root for good; make it a Candidate", id)
		return
	}
	s.note(&Record{Event: Restarted, Node: id})
	if err := s.start(i); err != nil {
		s.fail(err)
		return
	}
	s.wake(i, s.now)
	n := &s.nodes[i]
	n.workload = s.workloadOf(n)
	s.startWorkload(i, max(s.scenario.Start, s.now+n.workload.Think.draw(n.random())))
}

// Replace starts a new participant, named as, in the place of one that has crashed
// or is Absent, with its workload and clock. Nobody is named id any more: messages to
// id are lost. What Result says of the one counts the other as well.
func (s *Sim) Replace(id, as string, priority int64) {
	i, ok := s.member(id, "is replaced")
	if !ok {
		return
	}
	if _, used := s.index[as]; used || as == "" || s.nodes[i].machine != nil {
		s.failf("%q cannot be replaced by %q: the name must be new, and %q must have crashed", id, as, id)
		return
	}
	n := &s.nodes[i]
	n.ID, n.priority = as, priority
	n.incarnation = uint64(s.now / protocol.Millisecond) // as in reality the later, the higher
	s.index[as] = i
	s.Restart(as)
}

// Pause stops a participant and its application as a suspended process stops:
// its clock runs on, and what comes meanwhile waits.
func (s *Sim) Pause(id string) {
	if i, ok := s.running(id, "pauses"); ok {
		s.note(&Record{Event: Paused, Node: id})
		s.nodes[i].paused = true
	}
}

// Resume lets a paused participant go on. It first handles what has come.
func (s *Sim) Resume(id string) {
	i, ok := s.running(id, "resumes")
	if !ok || !s.nodes[i].paused {
		return
	}
	s.note(&Record{Event: Resumed, Node: id})
	s.release(i)
}

// release handles what came while participant i was paused.
func (s *Sim) release(i int32) {
	came := s.deferred[i]
	delete(s.deferred, i)
	s.nodes[i].paused = false
	for _, e := range came {
		s.handle(e)
	}
}

// hold keeps an event for a participant that is paused.
func (s *Sim) hold(e event) { s.deferred[e.node] = append(s.deferred[e.node], e) }

// Cut takes the network from a participant: what it sends and what reaches it is
// lost until Reconnect.
func (s *Sim) Cut(id string) {
	if i, ok := s.running(id, "is cut off"); ok {
		s.note(&Record{Event: Cut, Node: id})
		s.nodes[i].cut = true
	}
}

// Reconnect gives the network back. What was sent to the participant over the
// lost connection and has not arrived is lost.
func (s *Sim) Reconnect(id string) {
	i, ok := s.running(id, "reconnects")
	if !ok {
		return
	}
	s.note(&Record{Event: Reconnected, Node: id})
	n := &s.nodes[i]
	n.cut = false
	n.conn++
	delete(s.stalls, i)
	e := event{kind: eventReconnect, node: i}
	if n.paused {
		s.hold(e)
		return
	}
	s.handle(e)
}

// Stall leaves a participant its connection, but what it sends and what is sent to it
// from now on arrives only at instant until, in order: a path that hangs and recovers
// without a loss. Reconnect ends it for what is sent afterwards.
func (s *Sim) Stall(id string, until protocol.Time) {
	if i, ok := s.running(id, "stalls"); ok {
		s.note(&Record{Event: Stalled, Node: id, Note: "until " + seconds(until)})
		s.stalls[i] = until
	}
}

func (s *Sim) reconnected(i int32) {
	s.in = protocol.Input{Kind: protocol.Reconnect}
	s.feed(i)
}

// SetNetwork changes what happens to messages sent from now on: a test heals the
// network after a time of faults, or makes it worse.
func (s *Sim) SetNetwork(n Network) {
	if err := n.validate(len(s.nodes)); err != nil {
		s.fail(err)
		return
	}
	s.scenario.Network = n
	s.useNetwork(true)
}

// Waiting is a request that waits.
type Waiting struct {
	Node     string
	Resource string // that it asked for
	Priority int64
	Since    protocol.Time // when it was made
}

// Waiting lists the requests that wait now, in no order that means anything.
func (s *Sim) Waiting() []Waiting {
	var all []Waiting
	for i := range s.calls {
		if c := &s.calls[i]; c.ref != 0 && !c.over && !c.inside {
			all = append(all, Waiting{s.nodes[c.node].ID, c.wanted.name, c.priority, c.since})
		}
	}
	return all
}

// Status is that of the machine of participant id; zero if it does not run.
func (s *Sim) Status(id string) protocol.Status {
	if i, ok := s.place(id); ok && s.nodes[i].machine != nil {
		return s.nodes[i].machine.Status()
	}
	return protocol.Status{}
}

// acting is running, for what a paused process cannot do.
func (s *Sim) acting(id, does string) (int32, bool) {
	i, ok := s.running(id, does)
	if ok && s.nodes[i].paused {
		s.fail(fmt.Errorf("%w: %q %s at %s, but it is paused: Resume it first", ErrScenario, id, does, seconds(s.now)))
		return 0, false
	}
	return i, ok
}

func (s *Sim) running(id, does string) (int32, bool) {
	i, ok := s.place(id)
	if ok && s.nodes[i].machine != nil && s.now >= s.nodes[i].Joins {
		return i, true
	}
	s.fail(fmt.Errorf("%w: %q %s at %s, but no such participant runs", ErrScenario, id, does, seconds(s.now)))
	return 0, false
}
