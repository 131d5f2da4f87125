package qosmutex

import (
	"fmt"
	"strings"
	"time"

	"padme/qosmutex/protocol"
)

// Timing holds the time constants of a lock topic. Start with [LAN], [WAN] or [Local],
// change what differs, and pass it to [WithTiming]; [Open] rejects inconsistent values with
// ErrInvalidConfig.
type Timing struct {
	// TTL is how long a session lasts after the last heartbeat that the root answered. A
	// dead holder blocks others for that long, and a member that is cut off for longer
	// loses its holds. The TTL belongs to the topic and never changes. Above 0.
	TTL time.Duration
	// Heartbeat is the interval at which a member reports to the root that it is alive:
	// above 0, at most TTL/4.
	Heartbeat time.Duration
	// Drift bounds how much the clock of any participant runs fast or slow: 0.01 is one
	// percent. 0 to 0.2.
	Drift float64
	// JoinWait is how long a newcomer collects offers of parents before it accepts the
	// best: a few round trips. Above 0.
	JoinWait time.Duration
	// MoveAfter is how long a priority must last before it moves the participant in the
	// tree. 0: at once.
	MoveAfter time.Duration
	// Hop is the longest time that a message takes from one participant through the broker
	// to another. Promised deadlines rely on it. See [WithDeadline].
	Hop time.Duration
}

// LAN suits participants and broker on one wired or Wi-Fi network: a TTL of 3 s. It is the
// default.
func LAN() Timing { return timingOf(protocol.LAN()) }

// WAN suits participants that reach the broker over the Internet: a TTL of 15 s.
func WAN() Timing { return timingOf(protocol.WAN()) }

// Local suits participants on one machine: a TTL of 1 s.
func Local() Timing { return timingOf(protocol.Local()) }

// WithTTL returns t with another TTL, and with a heartbeat that fits it.
func (t Timing) WithTTL(ttl time.Duration) Timing {
	return timingOf(t.protocol().WithTTL(protocol.Duration(ttl)))
}

// Grace returns the time without a heartbeat after which all others know that a participant
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
