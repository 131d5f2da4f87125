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
	deferred  map[int32][]event       // what came while a participant was paused
	stalls    map[int32]protocol.Time // until when a participant's connection carries nothing
	homeless  map[int32][]event       // requests of participants that have no place in the topic yet
	index     map[string]int32
	resources []*resource
	byName    map[string]*resource
	any       *resource // stands for requests for Any
	calls     []call
	freeCalls []int32
	done      map[uint64]func() // Request.Done, by Ref
	gone      map[uint64]bool   // Refs of holds that may go on in another process, and nobody goes by any more
	lastRef   uint64
	asked     int // requests that workloads made at askedAt
	askedAt   protocol.Time

	packets     []packet
	freePackets []int32 // with memory
	barePackets []int32 // without
	counted     int     // packets on their way whose kind is Counted
	steady      bool    // every message takes transit
	transit     protocol.Duration
	lined       bool // order must be kept
	order       map[pair]arrival
	orderLimit  int
	severed     []severed
	registry    registry
	roots       []int32 // nodes that act as the root, as far as their lease goes
	wire        []byte
	decoder     protocol.Decoder

	in      protocol.Input
	message protocol.Message
	out     protocol.Output
	cause   protocol.Kind // of the message being handled

	members    []string // as in protocol.Config
	parents    []int
	height     int               // of the tree
	knownAfter protocol.Duration // see Inversions.Known

	quiet     bool // nobody wants to know what happens
	history   history
	result    Result
	load      load
	contested int // resources with more than one hold

	longestGap Gap // of those that have ended
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
		byName: map[string]*resource{}, done: map[uint64]func(){}, gone: map[uint64]bool{}, deferred: map[int32][]event{}, stalls: map[int32]protocol.Time{}, homeless: map[int32][]event{}, quiet: scenario.Fast && scenario.Trace == nil,
		orderLimit: leastOrder,
	}
	s.registry.open(max(1, scenario.Registers))
	if scenario.Registers > 1 { // the time begins with new ones
		for i := range s.registry.all {
			s.registry.all[i].born = 0
		}
	}
	s.any = s.resource(protocol.Any)
	for _, name := range scenario.Settings.Resources {
		s.resource(name)
	}
	s.members, s.parents, s.height = scenario.tree()
	s.useNetwork(false)
	s.result.prepare(scenario.Participants)
	for i := range s.nodes {
		p := &scenario.Participants[i]
		s.index[p.ID] = int32(i)
		n := &s.nodes[i]
		n.Participant, n.priority, n.tickAt, n.wakeAt = p, p.Priority, protocol.Never, protocol.Never
		n.workload = s.workloadOf(n)
		if p.Absent {
			continue
		}
		if err := s.start(int32(i)); err != nil {
			return nil, err
		}
		s.wake(int32(i), p.Joins)
		s.startWorkload(int32(i), max(scenario.Start, p.Joins))
	}
	s.prepareArrivals()
	s.At(scenario.Start, s.begin)
	return s, nil
}

// Now is the simulated time.
func (s *Sim) Now() protocol.Time { return s.now }

// Events is how many events have happened: actions, application calls, messages
// that arrived and wake-ups.
func (s *Sim) Events() uint64 { return s.eventsRun }

// Result is what was measured so far. It changes as the simulation goes on.
func (s *Sim) Result() *Result {
	s.summary()
	return &s.result
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

// RunSome is RunUntil that stops after so many events at most, and reports whether it
// came to t.
func (s *Sim) RunSome(t protocol.Time, events int) (done bool, err error) {
	due := func() bool { return len(s.events) > 0 && s.events[0].at < t }
	err = s.loop(func() bool { events--; return events >= 0 && due() })
	if err != nil || due() {
		return false, err
	}
	s.now = max(s.now, t)
	return true, nil
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
	switch e.kind {
	case eventArrival:
		s.planArrival(int(e.slot) + 1)
	case eventTake: // which needs nobody but the register
		s.take(e.node, e.slot)
		return
	}
	if s.nodes[e.node].paused {
		s.hold(e)
		return
	}
	s.handle(e)
}

func (s *Sim) handle(e event) {
	switch e.kind {
	case eventLeave:
		s.finish(e.slot)
	case eventGiveUp:
		s.giveUp(e.slot)
	case eventRequest:
		s.ask(e)
	case eventArrival:
		s.arrive(e)
	case eventDeliver:
		s.deliver(e.node, e.slot)
	case eventReconnect:
		s.reconnected(e.node)
	case eventTick:
		s.tick(e.node, e.slot)
	case eventAnswer:
		s.answer(e.node, e.slot, true)
	case eventGiveUpAsking:
		s.answer(e.node, e.slot, false)
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

func (s *Sim) failf(format string, args ...any) {
	s.fail(fmt.Errorf("%w: "+format, append([]any{ErrScenario}, args...)...))
}
