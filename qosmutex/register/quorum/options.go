package quorum

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
)

// Transport carries messages between participants, which have names. It may lose,
// repeat and reorder them.
type Transport interface {
	// Send puts a message on the way. It does not block, and the message does not
	// change afterwards. An error is the same as a loss.
	Send(to string, message []byte) error
}

// quiet is for how long the voter answers nothing after a restart of its machine.
func (o *Options) quiet() time.Duration {
	return time.Duration(math.Ceil(float64(o.Lease) * (1 + o.Drift) / (1 - o.Drift)))
}

// Timing says how long a voter waits for what. The zero Timing is LAN.
type Timing struct {
	Resend  time.Duration // a message without an answer is repeated
	Backoff time.Duration // of a proposer that lost a race, at the most, the first time
	Probe   time.Duration // between signs of life of a voter
}

// LAN suits voters on one wired or Wi-Fi network.
func LAN() Timing {
	return Timing{
		Resend:  100 * time.Millisecond, // ten round trips and syncs, and little beside a lease
		Backoff: 20 * time.Millisecond,  // a round of two round trips and a sync
		Probe:   500 * time.Millisecond, // a missing voter is known within two seconds
	}
}

// Options configure a voter.
type Options struct {
	Self   string   // the voter's name, which the transport vouches for
	Voters []string // names of all: 1, 3 or 5, the same list for each
	File   string   // path of its journal, in a directory that exists

	// Lease spares the disk a sync: a renewal of a lease that is no longer than this is not
	// synced. The voter may have forgotten such renewals when its machine restarts, so it
	// then answers nothing for as long, stretched by the drift of clocks, which the other
	// voters cover. Longer leases are permitted; their renewals are synced. 0: all are.
	Lease time.Duration
	Drift float64 // bound on the drift of clocks, the same for the whole domain

	// Rate is how many bytes a second a participant that is no voter may have voters send each
	// other, and it; default 6 MiB: 2,048 small requests, which renew the records of 768 locks.
	// Names is how many names one may create at once, before it may create ten a minute; default
	// 12,288, a fifth of what voters keep. Each counts at this voter alone, and keeps requests from
	// being proposed, not from being accepted: voters with other values decide alike.
	Rate, Names int

	Timing Timing
	Logger *slog.Logger // nil: slog.Default

	seed uint64 // of a test; 0: a random one
}

func (o *Options) check() error {
	if _, err := caspaxos.CheckVoters(o.Voters); err != nil {
		return err
	}
	if o.Lease < 0 {
		return fmt.Errorf("%w: Lease is %v", register.ErrInvalid, o.Lease)
	}
	if !(o.Drift >= 0 && o.Drift < 1) {
		return fmt.Errorf("%w: Drift is %v, not between 0 and 1", register.ErrInvalid, o.Drift)
	}
	if err := o.checkLimits(); err != nil {
		return err
	}
	if o.Timing == (Timing{}) {
		o.Timing = LAN()
	}
	for name, d := range map[string]time.Duration{"Resend": o.Timing.Resend, "Backoff": o.Timing.Backoff, "Probe": o.Timing.Probe} {
		if d <= 0 {
			return fmt.Errorf("%w: Timing.%s is %v", register.ErrInvalid, name, d)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}

// Bounds of Options.Rate: some requests a second, and more than disks write.
const (
	LeastRate = 64 << 10
	MostRate  = 1 << 30
)

// DefaultRate is that of Options.
const DefaultRate = pace

func (o *Options) checkLimits() error {
	o.Rate, o.Names = cmp.Or(o.Rate, DefaultRate), cmp.Or(o.Names, caspaxos.MaxNames)
	if o.Rate < LeastRate || o.Rate > MostRate {
		return fmt.Errorf("%w: Rate is %d: choose %d to %d bytes a second, or 0 for the default", register.ErrInvalid, o.Rate, LeastRate, MostRate)
	}
	if o.Names < 1 || o.Names > caspaxos.MaxKeys {
		return fmt.Errorf("%w: Names is %d: choose 1 to %d, or 0 for the default", register.ErrInvalid, o.Names, caspaxos.MaxKeys)
	}
	return nil
}
