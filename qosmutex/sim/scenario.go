package sim

import (
	"errors"
	"fmt"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// ErrScenario is wrapped by every error about a scenario or an action on it.
var ErrScenario = errors.New("sim: invalid scenario")

// Scenario says who takes part, over which network, and who asks for what.
type Scenario struct {
	Seed         uint64
	Participants []Participant
	Timing       protocol.Timing
	Settings     protocol.Settings
	Fanout       int // of every participant; 0: the machine's default
	Network      Network
	// NewCandidate makes the machines of Candidates: candidate.New. Register is how they
	// reach the record of the topic.
	NewCandidate func(protocol.Config, lease.Config) (Candidate, error)
	Register     Register
	Order        Order
	Workload     Workload
	Arrivals     []Arrival // in addition to the workload; see ReadTrace
	// AllowOverlap is for algorithms that exclude each other only most of the time:
	// two in one critical section and fences that do not rise are counted instead of
	// ending the run.
	AllowOverlap bool
	// Registers is how many registers the participants were given, by mistake if it is
	// more than one; 0: one.
	Registers int
	// Fast is for long runs of machines that are known to work: messages are copied
	// instead of encoded, which hides reliance on a field that a kind does not carry;
	// the machines' own invariants are not checked; without a Trace, a Violation comes
	// without its History; and a Join that names the parent it wants reaches nobody
	// else, so that a big tree does not cost the square of its size. Exclusion and
	// fences are checked all the same.
	Fast bool
	// Configure, if set, changes what a machine is about to be made from: members that
	// are configured differently. Self says whose it is.
	Configure func(*protocol.Config)
	// The workload runs from Start until Start+Duration, and only what happens
	// then is measured. Start leaves time for the tree to settle: a participant
	// with a workload that has no place in it by then is an error.
	Start    protocol.Time
	Duration protocol.Duration
	// Trace, if set, is called with everything that happens, in order. The Record
	// and its Entries are good during the call only.
	Trace func(*Record)
}

// Participant is one node of the simulated topic.
type Participant struct {
	ID       string
	Priority int64 // smaller is more important
	Parent   string
	// Root makes it the root from the beginning for as long as it runs, and for good: it
	// cannot restart. Where it may end, make it a Candidate.
	Root      bool
	Candidate bool   // can be the root, if the record of the topic names it
	Creates   bool   // a Candidate that creates the topic if it has no record
	Place     string // of a Candidate, as lease.Config has it
	Register  int    // of a Candidate: which of Scenario.Registers it was given

	Absent bool          // does not run until Restart or Replace starts it
	Joins  protocol.Time // when it is started
	// Its clock shows ClockOffset at instant 0 and gains ClockDrift parts per
	// million.
	ClockOffset protocol.Duration
	ClockDrift  int64
	Workload    *Workload // nil: the scenario's
}

// Network says what happens to messages. The zero Network delivers at once.
type Network struct {
	Latency Latency // of every message; nil: none
	// Reorder lets messages from one participant to another arrive in another order
	// than they were sent in, as the latency has it. Otherwise a late message holds
	// up those behind it.
	Reorder   bool
	Loss      float64 // probability that a message is lost
	Duplicate float64 // probability that a message comes twice
}

// Order decides between events at the same instant. Actions of the test come
// first and wake-ups of machines last; events of the same sort keep the order in
// which they were scheduled.
type Order uint8

// Orders.
const (
	// ApplicationFirst lets applications leave and ask before messages arrive: a
	// participant that asks at the instant at which a token passes may use it.
	// This is the order under which the papers' numbers hold.
	ApplicationFirst Order = iota
	// MessagesFirst delivers before applications leave and ask.
	MessagesFirst
	// Shuffled draws the order of all but actions from the seed. Messages from one
	// participant to another stay in order unless Network.Reorder is set.
	Shuffled
)

const maxDrift = 200_000 // parts per million, as far as protocol.Timing lets ρ go

func (s *Scenario) validate() error {
	if len(s.Participants) == 0 {
		return fmt.Errorf("%w: nobody takes part", ErrScenario)
	}
	if err := s.Timing.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrScenario, err)
	}
	if s.Start < 0 || s.Duration < 0 || s.Start > longest || s.Duration > longest {
		return fmt.Errorf("%w: Start and Duration must not be negative or above %s", ErrScenario, seconds(longest))
	}
	if s.Order > Shuffled {
		return fmt.Errorf("%w: order %d is unknown", ErrScenario, s.Order)
	}
	if err := s.Network.validate(len(s.Participants)); err != nil {
		return err
	}
	if err := s.Register.validate(); err != nil {
		return err
	}
	if err := s.Workload.validate("the scenario"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range s.Participants {
		p := &s.Participants[i]
		if p.ID == "" || seen[p.ID] {
			return fmt.Errorf("%w: participant %d is named %q: names must be there and differ", ErrScenario, i, p.ID)
		}
		seen[p.ID] = true
		if p.Joins < 0 || p.ClockDrift < -maxDrift || p.ClockDrift > maxDrift {
			return fmt.Errorf("%w: %s: Joins must not be negative, ClockDrift within ±%d", ErrScenario, p.ID, maxDrift)
		}
		switch {
		case p.Root && p.Candidate || p.Creates && !p.Candidate:
			return fmt.Errorf("%w: %s: the Root is no Candidate, and only a Candidate Creates", ErrScenario, p.ID)
		case p.Register < 0 || p.Register >= max(1, s.Registers):
			return fmt.Errorf("%w: %s was given register %d of %d", ErrScenario, p.ID, p.Register, max(1, s.Registers))
		case p.Candidate && s.NewCandidate == nil:
			return fmt.Errorf("%w: %s is a Candidate, but NewCandidate is not set", ErrScenario, p.ID)
		case p.Workload == nil:
			continue
		}
		if err := p.Workload.validate(p.ID); err != nil {
			return err
		}
	}
	for i := range s.Participants {
		if p := &s.Participants[i]; p.Parent != "" && !seen[p.Parent] {
			return fmt.Errorf("%w: the parent %q of %s does not take part", ErrScenario, p.Parent, p.ID)
		}
	}
	if _, _, height := s.tree(); height >= len(s.Participants) {
		return fmt.Errorf("%w: the parents of the participants form a circle", ErrScenario)
	}
	return s.validateArrivals(seen)
}

func (n *Network) validate(participants int) error {
	if n.Latency != nil {
		if err := n.Latency.check(participants); err != nil {
			return err
		}
	}
	for _, p := range []float64{n.Loss, n.Duplicate} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%w: Loss and Duplicate are probabilities; got %v", ErrScenario, p)
		}
	}
	return nil
}
