package protocol

import (
	"errors"
	"fmt"
)

// Timing holds the time constants of a lock topic. Take a preset and change what
// differs; Validate says what does not fit together.
type Timing struct {
	TTL       Duration // how long a session outlives the last answered heartbeat
	Heartbeat Duration // how often a participant tells the root that it lives
	Drift     float64  // bound ρ on the drift of a clock: 0.01 is one per cent
	JoinWait  Duration // how long a newcomer collects offers of parents
	MoveAfter Duration // how long a priority must last before it moves a participant in the tree
	Hop       Duration // how long a message takes between neighbors at most; deadlines are promised on it
}

// LAN suits participants and broker on one wired or Wi-Fi network.
func LAN() Timing {
	return Timing{
		TTL:       3 * Second,        // three lost heartbeats are an accident, four a death
		Heartbeat: 700 * Millisecond, // below TTL/4, leaving one round trip to answer
		Drift:     0.01,              // a hundred times a bad quartz: covers virtual machines too
		JoinWait:  150 * Millisecond, // ten round trips of a busy Wi-Fi
		MoveAfter: 2 * Second,        // a tree that follows every whim costs more than it saves
		Hop:       20 * Millisecond,  // two hops of a busy Wi-Fi: to the broker and from it
	}
}

// WAN suits participants that reach the broker over the Internet or a mobile
// network.
func WAN() Timing {
	t := LAN()
	t.TTL = 15 * Second              // survives a change of the mobile cell
	t.Heartbeat = 3500 * Millisecond // below TTL/4
	t.JoinWait = Second              // three slow round trips
	t.MoveAfter = 10 * Second        // moves cost several slow round trips
	t.Hop = 300 * Millisecond        // to the broker and from it over a mobile network
	return t
}

// Local suits participants on one machine, where a death should be noticed soon.
func Local() Timing {
	t := LAN()
	t.TTL = Second                  // a paused or swapping process is the slowest thing here
	t.Heartbeat = 230 * Millisecond // below TTL/4
	t.JoinWait = 30 * Millisecond   // a round trip takes well below a millisecond
	t.MoveAfter = 500 * Millisecond
	t.Hop = 2 * Millisecond // a hundred times what a busy broker takes
	return t
}

// WithTTL is t with another TTL, and with heartbeats that fit it.
func (t Timing) WithTTL(ttl Duration) Timing {
	t.TTL = ttl
	t.Heartbeat = min(t.Heartbeat, ttl/30*7) // below TTL/4, leaving one round trip to answer
	return t
}

// ErrInvalidConfig is wrapped by every error about a configuration.
var ErrInvalidConfig = errors.New("protocol: invalid configuration")

// Validate reports the first constant that does not fit the others.
func (t Timing) Validate() error {
	switch {
	case t.TTL <= 0:
		return fmt.Errorf("%w: TTL %d ns must be positive", ErrInvalidConfig, t.TTL)
	case t.Heartbeat <= 0:
		return fmt.Errorf("%w: heartbeat %d ns must be positive: begin with LAN() or WAN(), and change what is to differ", ErrInvalidConfig, t.Heartbeat)
	case t.TTL < 4*t.Heartbeat:
		return fmt.Errorf("%w: TTL %d ms is below four heartbeats of %d ms, which are %d ms: set the TTL with WithTTL, which makes the heartbeats fit it",
			ErrInvalidConfig, t.TTL/Millisecond, t.Heartbeat/Millisecond, 4*t.Heartbeat/Millisecond)
	case !(t.Drift >= 0 && t.Drift <= 0.2):
		return fmt.Errorf("%w: clock drift %v is not between 0 and 0.2", ErrInvalidConfig, t.Drift)
	case t.JoinWait <= 0:
		return fmt.Errorf("%w: join wait %d ns must be positive", ErrInvalidConfig, t.JoinWait)
	case t.Hop < 0:
		return fmt.Errorf("%w: hop %d ns is negative", ErrInvalidConfig, t.Hop)
	case t.MoveAfter < 0:
		return fmt.Errorf("%w: move delay %d ns is negative", ErrInvalidConfig, t.MoveAfter)
	}
	return nil
}

// Grace is TTL·(1+ρ)/(1−ρ), rounded up: after this long by our clock without a
// heartbeat, a participant is known to consider its own session over, also if our
// clock is fast by ρ and its clock slow by ρ.
func (t Timing) Grace() Duration {
	return Duration(float64(t.TTL)*(1+t.Drift)/(1-t.Drift)) + 1
}
