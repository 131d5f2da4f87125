package lease

import (
	"errors"
	"fmt"

	"padme/qosmutex/protocol"
)

// Errors of this package, for errors.Is.
var (
	ErrInvalid = errors.New("lease: invalid")                             // of a Config or an Answer
	ErrDomain  = errors.New("lease: the register has another domain now") // it was reset: make a new machine once nothing is held
)

// Config is what a machine is made from.
type Config struct {
	Self protocol.Node
	// Place names the machine, boot and lock file of this participant, if it has the
	// lock on such a file, as no other process of the topic does: a root that the record
	// names at the same place is dead. Empty: none.
	Place string
	Rank  int     // position among the candidates, 0 for the most important
	Drift float64 // bound ρ on the drift of a clock, the same for the whole domain

	// Create makes the topic's first record if there is none, from Lease, TTL and
	// Settings. A record that exists keeps its own.
	Create bool
	// Listen is for how long a candidate that hears itself listens for a root of another
	// register before it makes that record, and again before it lets somebody in.
	Listen     protocol.Duration
	Lease, TTL protocol.Duration
	Settings   protocol.Settings

	// FirstTerm is the wall clock, too, or 0. Where it is set, terms and fences begin at
	// the wall clock or above the term before: members remember those of another
	// register, and follow nobody below them. Else the first term is 1.
	FirstTerm uint64

	// What the process that was in the place of this participant left, when it ended as
	// the root of one of the terms HeldIn: who may hold by its word, if Known, and what it
	// held itself. It counts if the record still names one of those terms and this place
	// when this participant takes over, no root of another register was heard, and its
	// clock shows less than CountsUntil; 0: whenever that is. Else anybody may hold.
	Members     []protocol.Node
	Known       bool
	Held        []protocol.Held
	HeldIn      []uint64
	CountsUntil protocol.Time

	// Wall is the wall clock at the first Step, in microseconds since 1970. The fences
	// of a new topic start there.
	Wall uint64
	// Seed draws the nonces. No two runs of any participant may share it.
	Seed uint64
}

const (
	// block is by how much fences are reserved.
	block = 1 << 16
	// maxRaise bounds what the root may ask for at once: no correct one is near.
	maxRaise = 1 << 32
	// hour is how far, in microseconds, fences may be ahead of our clock to be believed.
	hour   = 3600 * second
	second = 1_000_000
	// earliest is a wall clock that no correct machine is below: 2026-01-01.
	earliest = 1_767_225_600 * 1_000_000
	// oldest is an age of the register beyond which nothing of before is left.
	oldest = 2 * protocol.MaxTTL
	// maxRank bounds the queue of candidates to one lease.
	maxRank = 8
)

func (c *Config) validate() error {
	switch {
	case c.Self.IsZero():
		return fmt.Errorf("%w: Self is empty", ErrInvalid)
	case !(c.Drift >= 0 && c.Drift <= 0.2):
		return fmt.Errorf("%w: clock drift %v is not between 0 and 0.2", ErrInvalid, c.Drift)
	case c.Listen < 0:
		return fmt.Errorf("%w: Listen is negative", ErrInvalid)
	case c.Rank < 0:
		return fmt.Errorf("%w: rank %d is negative", ErrInvalid, c.Rank)
	case c.Create && c.Wall < earliest:
		return fmt.Errorf("%w: the clock of this machine is before 2026: set it, or let another participant create the topic", ErrInvalid)
	}
	rec := c.record(c.Wall + block)
	if err := rec.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// record is what the first of a topic begins from, with fences from first. If the register
// was lost, members that are still there know settings of an older record: these are newer,
// as the fences are higher.
func (c *Config) record(first uint64) protocol.Record {
	s := c.Settings
	s.Version = first
	return protocol.Record{
		Term: 1, Lease: c.Lease, TTL: c.TTL, Ceiling: first, Settings: s,
	}
}

// grace is for how long something that rests on a session of this TTL may last, as wait
// is for a lease.
func (c *Config) grace(ttl protocol.Duration) protocol.Duration { return c.wait(ttl) }

// wait is how long another candidate must have known a version before it may replace it:
// after that long on our clock, if it is fast by ρ, the root's is past its lease, also
// if it is slow by ρ.
func (c *Config) wait(lease protocol.Duration) protocol.Duration {
	return protocol.Duration(float64(lease)*(1+c.Drift)/(1-c.Drift)) + 1
}

// term is for how long the root acts on a write.
func (c *Config) term(lease protocol.Duration) protocol.Duration {
	return protocol.Duration(float64(lease) * (1 - c.Drift))
}
