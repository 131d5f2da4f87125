package qosmutex

import (
	"fmt"
	"strings"
	"time"

	"padme/qosmutex/protocol"
)

// Timing holds the time constants of a lock topic. Take [LAN], [WAN] or [Local], change
// what differs, and hand it to [WithTiming]; [Open] refuses with ErrInvalidConfig what does
// not fit together.
type Timing struct {
	// TTL is how long a session outlives the last heartbeat that the root answered: a
	// dead holder blocks others for so long, and a member that is cut off for longer
	// loses its holds. It belongs to the topic and never changes. Above 0.
	TTL time.Duration
	// Heartbeat is how often a member tells the root that it lives: above 0, at most TTL/4.
	Heartbeat time.Duration
	// Drift bounds by how much the clock of any participant runs fast or slow: 0.01 is
	// one per cent. 0 to 0.2.
	Drift float64
	// JoinWait is for how long a newcomer collects offers of parents before it takes the
	// best: some round trips. Above 0.
	JoinWait time.Duration
	// MoveAfter is how long a priority must last before it moves the participant in the
	// tree. 0: at once.
	MoveAfter time.Duration
	// Hop is how long a message takes at most from one participant through the broker to
	// another: deadlines are promised on it. See [WithDeadline].
	Hop time.Duration
}

// LAN suits participants and broker on one wired or Wi-Fi network: a TTL of 3 s. It is the
// default.
func LAN() Timing { return timingOf(protocol.LAN()) }

// WAN suits participants that reach the broker over the Internet: a TTL of 15 s.
func WAN() Timing { return timingOf(protocol.WAN()) }

// Local suits participants on one machine: a TTL of 1 s.
func Local() Timing { return timingOf(protocol.Local()) }

// WithTTL returns t with another TTL, and with heartbeats that fit it.
func (t Timing) WithTTL(ttl time.Duration) Timing {
	return timingOf(t.protocol().WithTTL(protocol.Duration(ttl)))
}

// Grace is after how long without a heartbeat everybody else knows that a participant
// considers its session over, whatever the clocks do within Drift: a little more than TTL.
func (t Timing) Grace() time.Duration { return time.Duration(t.protocol().Grace()) }

func (t Timing) protocol() protocol.Timing {
	return protocol.Timing{
		TTL: protocol.Duration(t.TTL), Heartbeat: protocol.Duration(t.Heartbeat), Drift: t.Drift,
		JoinWait: protocol.Duration(t.JoinWait), MoveAfter: protocol.Duration(t.MoveAfter), Hop: protocol.Duration(t.Hop),
	}
}

func timingOf(t protocol.Timing) Timing {
	return Timing{
		TTL: time.Duration(t.TTL), Heartbeat: time.Duration(t.Heartbeat), Drift: t.Drift,
		JoinWait: time.Duration(t.JoinWait), MoveAfter: time.Duration(t.MoveAfter), Hop: time.Duration(t.Hop),
	}
}

// invalid makes an error about a configuration one of this package. nil stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrInvalidConfig, plain(err))
}

// plain is the text of an error of package protocol without its kind.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), protocol.ErrInvalidConfig.Error()+": ")
	return strings.TrimPrefix(text, protocol.ErrRecord.Error()+": ")
}
