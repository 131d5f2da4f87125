package pubsub

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"padme/pubsub/internal/partition"
)

// ErrUnsupportedQoS says that a policy was asked for which this package does not
// provide. It is never ignored silently.
var ErrUnsupportedQoS = errors.New("pubsub: unsupported QoS policy")

// Reliability says whether samples may be lost.
type Reliability uint8

const (
	// BestEffort samples may be lost, but do not arrive twice or out of order.
	BestEffort Reliability = iota
	// Reliable samples arrive once and in order from each writer, for as long as
	// the writer lives and its history holds them.
	Reliable
)

// Durability says which samples that were written before a reader was created are delivered
// to it.
type Durability uint8

// Durabilities, weakest first.
const (
	Volatile       Durability = iota // nothing
	TransientLocal                   // the history of every live writer
	Transient                        // that, and the last value of each instance of writers that are gone; [Probe] tests whether the broker supports it
	Persistent                       // not supported: samples that outlive the broker
)

// History says which samples a writer keeps for its readers, and a reader for its
// application.
type History uint8

const (
	// KeepLast keeps the last Depth samples of each instance. A slow reader misses older
	// ones.
	KeepLast History = iota
	// KeepAll keeps samples until every reader has acknowledged them, or the application
	// has taken them. At MaxSamples a writer blocks. A full reader stops acknowledging, so
	// its writers block in turn.
	KeepAll
)

// QoS holds the policies of a writer or reader. The zero value is best effort, volatile,
// keep last 1. Policies marked "not supported" must be zero; otherwise creating the writer
// or reader fails with ErrUnsupportedQoS. Deadline, Lifespan, Strength, Partition and
// TimeBasedFilter can be changed later, see Writer.SetQoS and Reader.SetQoS.
//
// The writer's QoS is offered, the reader's requested. Reliability, Durability, Deadline,
// Liveliness and BySourceTime match if at least as much is offered as requested, and
// Exclusive if both are the same. Otherwise no data flows between the two, and both get an
// IncompatibleQoS event.
type QoS struct {
	Reliability Reliability
	// MaxBlocking bounds how long Write of a reliable writer blocks; 0 is 1 s.
	MaxBlocking time.Duration
	// Transient requires Reliable. With TransientLocal a best-effort reader gets the
	// history completely and once, as a reliable one does, and then new samples. A
	// best-effort writer drops its oldest sample at MaxSamples.
	Durability Durability
	History    History
	Depth      int // of KeepLast; 0 is 1. KeepAll ignores it, as in DDS
	// DurabilityService of a TransientLocal writer with KeepAll is how many samples of each
	// instance it keeps for late joiners, in addition to those that a reader lacks; 0 is
	// all. A writer that runs indefinitely needs it, because Write blocks while MaxSamples
	// are held. MaxSamples must be at least this number times the number of instances.
	DurabilityService int
	// MaxSamples bounds the samples held, over all instances; 0 is 8192. At a reader,
	// changes of an instance's state do not count, and Depth does not limit them. A writer
	// counts them, but may dispose and unregister until it holds twice as many, because an
	// instance that is over makes room. At a writer with a durability, the samples for late
	// joiners count, too. Instances that are disposed or, with TransientLocal, unregistered
	// make room once all matched readers know.
	MaxSamples int
	// MaxInstances bounds the instances known to a reader; 0 is 8192. An instance that is
	// disposed or without writers, and read, makes room. At the bound a reader reports
	// SampleRejected. With KeepAll it stops acknowledging until there is room; with
	// KeepLast it drops samples of further instances. For a writer it must be zero.
	MaxInstances int

	// Deadline is the longest time between two samples of an instance, as offered by the
	// writer and requested by the reader; 0 is unlimited. A side that detects a missed
	// deadline gets an event for each period.
	Deadline time.Duration
	// Lifespan of a writer is how long a sample is kept, by the writer and by readers,
	// after it was written; 0 is unlimited. It relies on the clocks of both, which should
	// differ by much less.
	Lifespan time.Duration
	// Liveliness says who asserts, within each LivelinessLease, that the writer is alive.
	// With a lease of 0, which is infinite, the writer is alive until it is closed, the
	// broker reports the death of its participant, or that participant does not come back
	// to a broker that crashed. The two are offered and requested together.
	Liveliness      Liveliness
	LivelinessLease time.Duration
	// Exclusive is OWNERSHIP. A reader accepts samples of an instance only from its owner:
	// of the writers that are alive and meet their deadline, the one with the highest
	// Strength, and among equals the one with the lowest GUID. Both sides must agree on it.
	// Readers decide independently and may disagree for a while: it is not a lock.
	Exclusive bool
	Strength  int // OWNERSHIP_STRENGTH of an exclusive writer
	// Partition names the parts of the domain that a writer or reader is in, at most 16;
	// none stands for "default". A name with * ? or [ is a pattern, as in a POSIX shell. A
	// writer and a reader match only if a name of one equals a name of the other or matches
	// a pattern of it. Otherwise they do not see each other, and there is no event. A
	// writer publishes once to each partition that it names.
	Partition []string
	// TimeBasedFilter of a reader is the minimum time between two samples of an instance; 0
	// is none. A sample that arrives too early waits until the time is over or a newer one
	// replaces it; a best-effort reader drops it. Changes of an instance's state are
	// delivered at once.
	TimeBasedFilter time.Duration
	// BySourceTime is DESTINATION_ORDER. Readers deliver the samples of an instance in the
	// order of their source times, and equal ones in the order of their writers' GUIDs.
	// They drop and count a sample that arrives too late for that. So all readers end with
	// the same sample. It compares the writers' clocks. A reader that requests it matches
	// only writers that offer it.
	BySourceTime bool
	// AllowCompatible is TYPE_CONSISTENCY of a reader. It also matches writers of another
	// struct if both have the same key fields and at least one field in common, and the
	// common fields have the same types. Missing fields stay zero.
	AllowCompatible bool

	LatencyBudget     time.Duration // not supported
	OrderedAccess     bool          // PRESENTATION ordered: not supported
	CoherentAccess    bool          // PRESENTATION coherent: not supported
	TransportPriority int           // not supported: one stream has one priority
}

const (
	defaultLimit       = 8192
	maxLimit           = 1 << 20
	defaultMaxBlocking = time.Second
	// minDeadline keeps a period above what timers and a broker can tell apart.
	minDeadline = time.Millisecond
	// minLease keeps heartbeats, of which a lease has four, at least 5 ms apart.
	minLease = 20 * time.Millisecond
)

// validate fills in defaults and refuses what cannot be had.
func (q *QoS) validate() error {
	for _, u := range []struct {
		policy string
		wanted bool
	}{
		{"DURABILITY persistent", q.Durability > Transient},
		{"LATENCY_BUDGET", q.LatencyBudget != 0},
		{"PRESENTATION", q.OrderedAccess || q.CoherentAccess},
		{"TRANSPORT_PRIORITY", q.TransportPriority != 0},
	} {
		if u.wanted {
			return fmt.Errorf("%w: %s: leave it at its zero value", ErrUnsupportedQoS, u.policy)
		}
	}
	if q.Depth == 0 {
		q.Depth = 1
	}
	if q.MaxSamples == 0 {
		q.MaxSamples = defaultLimit
	}
	if q.MaxInstances == 0 {
		q.MaxInstances = defaultLimit
	}
	if q.MaxBlocking == 0 {
		q.MaxBlocking = defaultMaxBlocking
	}
	switch {
	case q.Reliability > Reliable, q.History > KeepAll:
		return fmt.Errorf("%w: there is no such reliability or history in %+v", ErrInvalid, *q)
	case q.Durability == Transient && q.Reliability != Reliable:
		return fmt.Errorf("%w: Transient needs Reliable: what outlives a writer must have come to the broker", ErrInvalid)
	case q.Depth < 0 || q.Depth > maxLimit || q.MaxSamples < 1 || q.MaxSamples > maxLimit || q.MaxInstances < 1 || q.MaxInstances > maxLimit:
		return fmt.Errorf("%w: depth %d, samples %d and instances %d must be 1 to %d", ErrInvalid, q.Depth, q.MaxSamples, q.MaxInstances, maxLimit)
	case q.DurabilityService < 0 || q.DurabilityService > q.MaxSamples:
		return fmt.Errorf("%w: DurabilityService %d must be 0 to MaxSamples, %d", ErrInvalid, q.DurabilityService, q.MaxSamples)
	case q.DurabilityService > 0 && (q.Durability != TransientLocal || q.History != KeepAll):
		return fmt.Errorf("%w: DURABILITY_SERVICE is for TransientLocal with KeepAll: leave DurabilityService at zero, late joiners get Depth samples", ErrUnsupportedQoS)
	case q.History == KeepLast && q.Depth > q.MaxSamples:
		return fmt.Errorf("%w: depth %d exceeds MaxSamples %d", ErrInvalid, q.Depth, q.MaxSamples)
	case q.MaxBlocking < 0:
		return fmt.Errorf("%w: MaxBlocking %v is negative", ErrInvalid, q.MaxBlocking)
	}
	if err := q.validateTime(); err != nil {
		return err
	}
	return partition.List(q.Partition).Validate()
}

// validateTime checks the policies of time and of writers' standing.
func (q *QoS) validateTime() error {
	switch {
	case q.Deadline != 0 && q.Deadline < minDeadline:
		return fmt.Errorf("%w: Deadline %v, give at least %v, or 0 for none", ErrInvalid, q.Deadline, minDeadline)
	case q.Liveliness > ManualByTopic:
		return fmt.Errorf("%w: there is no liveliness %d", ErrInvalid, q.Liveliness)
	case q.LivelinessLease != 0 && q.LivelinessLease < minLease:
		return fmt.Errorf("%w: LivelinessLease %v, give at least %v, or 0 for an infinite one", ErrInvalid, q.LivelinessLease, minLease)
	case q.Lifespan < 0:
		return fmt.Errorf("%w: Lifespan %v is negative", ErrInvalid, q.Lifespan)
	case q.TimeBasedFilter < 0:
		return fmt.Errorf("%w: TimeBasedFilter %v is negative", ErrInvalid, q.TimeBasedFilter)
	case q.Deadline > 0 && q.TimeBasedFilter > q.Deadline:
		return fmt.Errorf("%w: TimeBasedFilter %v is above Deadline %v: each period would be missed", ErrInvalid, q.TimeBasedFilter, q.Deadline)
	case q.Strength != 0 && !q.Exclusive:
		return fmt.Errorf("%w: Strength %d has no meaning without Exclusive", ErrInvalid, q.Strength)
	}
	return nil
}

// checkReader refuses what only a writer can have: a reader would ignore it.
func (q *QoS) checkReader() error {
	switch {
	case q.Lifespan != 0:
		return fmt.Errorf("%w: Lifespan is a policy of writers, leave it at zero", ErrInvalid)
	case q.DurabilityService != 0:
		return fmt.Errorf("%w: DurabilityService is a policy of writers, leave it at zero", ErrInvalid)
	case q.Strength != 0:
		return fmt.Errorf("%w: Strength is a policy of writers, leave it at zero", ErrInvalid)
	}
	return nil
}

// checkWriter refuses what only a reader can have: a writer would ignore it.
func (q *QoS) checkWriter() error {
	switch {
	case q.TimeBasedFilter != 0:
		return fmt.Errorf("%w: TimeBasedFilter is a policy of readers, leave it at zero", ErrInvalid)
	case q.MaxInstances != defaultLimit: // which validate has filled in
		return fmt.Errorf("%w: RESOURCE_LIMITS of a writer's instances: leave MaxInstances at zero, only readers bound theirs", ErrUnsupportedQoS)
	case q.AllowCompatible:
		return fmt.Errorf("%w: AllowCompatible is a policy of readers, leave it false", ErrInvalid)
	case q.Durability == Transient && slices.ContainsFunc(q.Partition, partition.IsPattern):
		return fmt.Errorf("%w: a transient writer keeps its samples for readers to come, so it must name its partitions: %q has a pattern", ErrInvalid, q.Partition)
	}
	return nil
}
