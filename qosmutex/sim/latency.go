package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"padme/qosmutex/protocol"
)

// Latency is how long a message takes: a [Distribution], the same for every pair
// of participants, or a [Matrix]. nil: messages arrive at once.
type Latency interface {
	fmt.Stringer
	// between draws the latency of one message between two participants, who are
	// named by their place in Scenario.Participants.
	between(r *rand.Rand, from, to int32) protocol.Duration
	// greatest is as that of Distribution.
	greatestOf() protocol.Duration
	check(participants int) error
}

func (d Distribution) between(r *rand.Rand, _, _ int32) protocol.Duration { return d.draw(r) }

func (d Distribution) greatestOf() protocol.Duration { return d.greatest() }

func (d Distribution) check(int) error { return d.validate("the latency") }

// Matrix is a Latency that depends on who sends to whom, such as one measured
// between real sites. It does not vary from message to message.
type Matrix struct {
	// Each[i][j] is from participant i to participant j, in the order of
	// Scenario.Participants. What a participant sends to itself is never sent.
	Each [][]protocol.Duration
	// Scale multiplies all of them; 0: 1.
	Scale float64
}

func (m Matrix) String() string { return fmt.Sprintf("matrix of %d × %v", len(m.Each), m.scale()) }

func (m Matrix) scale() float64 {
	if m.Scale == 0 {
		return 1
	}
	return m.Scale
}

func (m Matrix) between(_ *rand.Rand, from, to int32) protocol.Duration {
	d := m.Each[from][to]
	if m.Scale == 0 {
		return d
	}
	return span(float64(d) * m.Scale)
}

func (m Matrix) greatestOf() protocol.Duration {
	var most protocol.Duration
	for i, row := range m.Each {
		for j := range row {
			if i != j {
				most = max(most, m.between(nil, int32(i), int32(j)))
			}
		}
	}
	return most
}

func (m Matrix) check(participants int) error {
	if !(m.Scale >= 0) || math.IsInf(m.Scale, 0) {
		return fmt.Errorf("%w: the latency matrix cannot be scaled by %v", ErrScenario, m.Scale)
	}
	if len(m.Each) != participants {
		return fmt.Errorf("%w: the latency matrix has %d rows for %d participants", ErrScenario, len(m.Each), participants)
	}
	for i, row := range m.Each {
		if len(row) != participants {
			return fmt.Errorf("%w: row %d of the latency matrix has %d columns for %d participants", ErrScenario, i, len(row), participants)
		}
		for j, d := range row {
			if d < 0 || d > longest {
				return fmt.Errorf("%w: the latency from participant %d to %d is %s", ErrScenario, i, j, seconds(d))
			}
		}
	}
	return nil
}

// Tail is a Latency that now and then draws from another: a share of the messages
// takes much longer than usual.
type Tail struct {
	Usual Latency // nil: none
	Share float64 // of the messages that take as long as Rare says instead
	Rare  Distribution
}

func (t Tail) String() string {
	return fmt.Sprintf("%v, %v in %v of all cases", t.Usual, t.Rare, t.Share)
}

func (t Tail) between(r *rand.Rand, from, to int32) protocol.Duration {
	switch {
	case r.Float64() < t.Share:
		return t.Rare.draw(r)
	case t.Usual == nil:
		return 0
	}
	return t.Usual.between(r, from, to)
}

func (t Tail) greatestOf() protocol.Duration {
	if t.Usual == nil {
		return t.Rare.greatest()
	}
	return max(t.Usual.greatestOf(), t.Rare.greatest())
}

func (t Tail) check(participants int) error {
	if !(t.Share >= 0 && t.Share <= 1) {
		return fmt.Errorf("%w: the share of rare latencies is %v, want a probability", ErrScenario, t.Share)
	}
	if t.Usual != nil {
		if err := t.Usual.check(participants); err != nil {
			return err
		}
	}
	return t.Rare.check(participants)
}

// Measured is a Latency to which one of Samples is added, drawn at random: what a real network
// and the programs at its ends were seen to add.
type Measured struct {
	Base    Latency // to which a sample is added; nil: none
	Samples []protocol.Duration
}

func (m Measured) String() string {
	return fmt.Sprintf("%v and one of %d that were measured", m.Base, len(m.Samples))
}

func (m Measured) between(r *rand.Rand, from, to int32) protocol.Duration {
	d := m.Samples[r.IntN(len(m.Samples))]
	if m.Base != nil {
		d += m.Base.between(r, from, to)
	}
	return d
}

func (m Measured) greatestOf() protocol.Duration {
	most := slices.Max(m.Samples)
	if m.Base != nil {
		most += m.Base.greatestOf()
	}
	return most
}

func (m Measured) check(participants int) error {
	if len(m.Samples) == 0 || slices.Min(m.Samples) < 0 || slices.Max(m.Samples) > longest {
		return fmt.Errorf("%w: the %d measured latencies must not be negative, and there must be one", ErrScenario, len(m.Samples))
	}
	if m.Base != nil {
		return m.Base.check(participants)
	}
	return nil
}

// DrawLatency draws how long a message takes between two participants, who are named by their
// place in Scenario.Participants, for what is no simulation and imitates one.
func DrawLatency(l Latency, r *rand.Rand, from, to int) protocol.Duration {
	if l == nil {
		return 0
	}
	return l.between(r, int32(from), int32(to))
}
