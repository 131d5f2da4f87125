package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"padme/qosmutex/protocol"
)

// Sim is one run of a scenario. It is not safe for concurrent use.
type Sim struct {
	scenario  Scenario
	algorithm protocol.Algorithm
	random    *rand.Rand
	now       protocol.Time
	seq       uint64
	events    queue
	eventsRun uint64
	actions   []func()
	err       error

	nodes     []node
	index     map[string]int32
	resources []*resource
	byName    map[string]*resource
	calls     []call
	freeCalls []int32
	slotOf    map[uint64]int32 // from Ref to the slot in calls
	lastRef   uint64
	maxEpoch  uint64

	packets     []packet
	freePackets []int32
	counted     int // packets on their way whose kind is Counted
	order       map[pair]arrival
	wire        []byte
	decoder     protocol.Decoder

	in      protocol.Input
	message protocol.Message
	out     protocol.Output
	cause   protocol.Kind // of the message being handled

	history   history
	result    Result
	contested int // resources with more than one hold
}

// New prepares a run of scenario with machines of algorithm. Nothing happens
// until Run, RunUntil or Settle.
func New(algorithm protocol.Algorithm, scenario Scenario) (*Sim, error) {
	if err := scenario.validate(); err != nil {
		return nil, err
	}
	if algorithm.New == nil {
		return nil, fmt.Errorf("%w: the algorithm %q has no New", ErrScenario, algorithm.Name)
	}
	scenario.Participants = slices.Clone(scenario.Participants)
	s := &Sim{
		scenario: scenario, algorithm: algorithm,
		random: rand.New(rand.NewPCG(scenario.Seed, 0x7061646d65)),
		nodes:  make([]node, len(scenario.Participants)),
		index:  make(map[string]int32, len(scenario.Participants)),
		byName: map[string]*resource{}, slotOf: map[uint64]int32{}, order: map[pair]arrival{},
	}
	s.result.prepare(scenario.Participants)
	for i := range s.nodes {
		p := &scenario.Participants[i]
		s.index[p.ID] = int32(i)
		n := &s.nodes[i]
		n.Participant, n.priority, n.tickAt, n.wakeAt = p, p.Priority, protocol.Never, protocol.Never
		n.workload = &scenario.Workload
		if p.Workload != nil {
			n.workload = p.Workload
		}
		if err := s.start(int32(i)); err != nil {
			return nil, err
		}
		s.wake(int32(i), p.Joins)
		if len(n.workload.Resources) > 0 {
			s.askAt(int32(i), max(scenario.Start, p.Joins))
		}
	}
	s.At(scenario.Start, s.begin)
	return s, nil
}

// Now is the simulated time.
func (s *Sim) Now() protocol.Time { return s.now }

// Events is how many events have happened: actions, application calls, messages
// that arrived and wake-ups.
func (s *Sim) Events() uint64 { return s.eventsRun }

// Result is what was measured so far.
func (s *Sim) Result() *Result {
	r := &s.result
	r.Measured = max(0, min(s.now, s.end())-s.scenario.Start)
	return r
}

func (s *Sim) end() protocol.Time { return s.scenario.Start + s.scenario.Duration }

// Run runs to the end of the scenario and returns what was measured. The error
// wraps ErrViolation if a machine broke what the lock promises.
func (s *Sim) Run() (*Result, error) {
	err := s.RunUntil(s.end())
	return s.Result(), err
}

// RunUntil runs everything that happens before instant t and stops at t.
func (s *Sim) RunUntil(t protocol.Time) error {
	err := s.loop(func() bool { return len(s.events) > 0 && s.events[0].at < t })
	if err == nil {
		s.now = max(s.now, t)
	}
	return err
}

// Settle runs until no message that the papers count is on its way and nothing
// more happens at that instant. It is an error if that takes longer than limit.
func (s *Sim) Settle(limit protocol.Duration) error {
	until := s.now + limit
	err := s.loop(func() bool {
		if len(s.events) == 0 || s.events[0].at > until {
			return false
		}
		return s.counted > 0 || s.events[0].at == s.now
	})
	if err == nil && s.counted > 0 {
		s.fail(fmt.Errorf("%w: %d messages are still on their way after %v", ErrScenario, s.counted, seconds(limit)))
	}
	return s.err
}

// loop runs events while more says so. A machine that panics ends the run as one
// that breaks a promise does.
func (s *Sim) loop(more func() bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.violate("panic: %v\n%s", p, debug.Stack())
			err = s.err
		}
	}()
	for s.err == nil && more() {
		s.next()
	}
	return s.err
}

func (s *Sim) next() {
	e := s.events.pop()
	s.now = e.at
	s.eventsRun++
	if e.kind == eventAction {
		f := s.actions[e.slot]
		s.actions[e.slot] = nil
		f()
		return
	}
	if n := &s.nodes[e.node]; n.paused {
		n.deferred = append(n.deferred, e)
		return
	}
	s.handle(e)
}

func (s *Sim) handle(e event) {
	switch e.kind {
	case eventLeave:
		s.finish(e.slot)
	case eventRequest:
		s.ask(e.node)
	case eventDeliver:
		s.deliver(e.node, e.slot)
	case eventReconnect:
		s.reconnected(e.node)
	case eventTick:
		s.tick(e.node, e.slot)
	}
}

// schedule puts e into the queue with its place at its instant.
func (s *Sim) schedule(e event) {
	e.at = max(e.at, s.now)
	e.rank = s.rank(e.kind)
	s.seq++
	e.seq = s.seq
	s.events.push(e)
}

// rank is the place of a kind of event among those at the same instant.
func (s *Sim) rank(k eventKind) uint32 {
	switch {
	case k == eventAction:
		return 0
	case s.scenario.Order == Shuffled:
		return 1 + s.random.Uint32()>>1
	case k == eventTick:
		return 3
	case (k == eventDeliver) == (s.scenario.Order == MessagesFirst):
		return 1
	}
	return 2
}

// fail ends the run with err unless it has failed before.
func (s *Sim) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
