package caspaxos

import (
	"cmp"
	"fmt"
	"slices"

	"padme/qosmutex/register"
)

// Time is an instant on a voter's own clock, or a duration, in nanoseconds. The clock
// only rises, and goes on while the machine sleeps.
type Time int64

// Ballot numbers an attempt to write. Ballots are totally ordered, each is used by one
// proposer once, and the zero Ballot is below all.
type Ballot struct {
	Config uint32 // number of the configuration
	Round  uint64
	Voter  uint8 // index of the proposer in the configuration
}

// Compare returns whether b is below, the same as or above o, as cmp.Compare does.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Config, o.Config), cmp.Compare(b.Round, o.Round), cmp.Compare(b.Voter, o.Voter))
}

// IsZero reports whether nothing was accepted or promised.
func (b Ballot) IsZero() bool { return b == Ballot{} }

// Stamp is a version within the domain of its configuration.
type Stamp struct {
	Counter uint64
	Nonce   uint64
}

// State is what a key holds. The zero State was never written.
type State struct {
	Value []byte
	Stamp Stamp

	Firm  Stamp // of the last write that was no renewal
	Lease Time  // for how long the writer of a renewal relies on it
}

// renewed reports whether the last write was a renewal. Then the one before it was
// chosen, and a majority has that on disk under one ballot.
func (s *State) renewed() bool { return s.Stamp != s.Firm }

// Slot is what a voter has accepted for a key.
type Slot struct {
	Key      string
	Accepted Ballot // zero: nothing
	State    State
}

// Voter is a durable voter: a name, and the file that was enrolled under it.
type Voter struct {
	ID       string
	Instance uint64 // random, and never 0
}

// Config is a configuration: who votes. Configurations of a domain are numbered from
// 1, and each but the first is a decision of the one before it.
type Config struct {
	Domain register.Domain
	Number uint32
	Voters []Voter // 1, 3 or 5, in the order of their ids
	Prev   []Voter // those of the configuration before it
}

// MaxVoters is how many voters a configuration may have.
const MaxVoters = 5

// IDs returns the names of the voters.
func (c *Config) IDs() []string {
	ids := make([]string, len(c.Voters))
	for i, v := range c.Voters {
		ids[i] = v.ID
	}
	return ids
}

// index returns the place of a voter, or -1.
func (c *Config) index(id string) int {
	return slices.IndexFunc(c.Voters, func(v Voter) bool { return v.ID == id })
}

// has reports whether a voter with this file is in the configuration.
func (c *Config) has(id string, instance uint64) bool {
	i := c.index(id)
	return i >= 0 && c.Voters[i].Instance == instance
}

// majority is how many voters decide.
func (c *Config) majority() int { return len(c.Voters)/2 + 1 }

// version returns the version that a stamp stands for.
func (c *Config) version(s Stamp) register.Version {
	return register.Version{Domain: c.Domain, Counter: s.Counter, Nonce: s.Nonce}
}

// replaced returns the configuration in which one voter takes the place of another.
func (c *Config) replaced(old string, by Voter) (*Config, error) {
	i := c.index(old)
	if i < 0 {
		return nil, fmt.Errorf("%w: %q is no voter: the voters are %v", register.ErrInvalid, old, c.IDs())
	}
	if j := c.index(by.ID); j >= 0 && j != i {
		return nil, fmt.Errorf("%w: %q is a voter already: the voters are %v", register.ErrInvalid, by.ID, c.IDs())
	}
	next := &Config{Domain: c.Domain, Number: c.Number + 1, Voters: slices.Clone(c.Voters), Prev: c.Voters}
	next.Voters[i] = by
	slices.SortFunc(next.Voters, func(a, b Voter) int { return cmp.Compare(a.ID, b.ID) })
	return next, nil
}

// CheckVoters reports what is wrong with a list of voters, as an error that wraps
// register.ErrInvalid, and returns it in order.
func CheckVoters(ids []string) ([]string, error) {
	sorted := slices.Sorted(slices.Values(ids))
	if n := len(ids); n != 1 && n != 3 && n != 5 {
		return nil, fmt.Errorf("%w: %d voters: name 1, 3 or 5", register.ErrInvalid, n)
	}
	for i, id := range sorted {
		if err := register.CheckKey(id); err != nil {
			return nil, fmt.Errorf("voter %q: %w", id, err)
		}
		if i > 0 && id == sorted[i-1] {
			return nil, fmt.Errorf("%w: voter %q is named twice", register.ErrInvalid, id)
		}
	}
	return sorted, nil
}
