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

// Durability is what a reader gets that was written before it came.
type Durability uint8

// Durabilities, weakest first.
const (
	Volatile       Durability = iota // nothing
	TransientLocal                   // the history of every writer that is alive
	Transient                        // that, and of each writer that is gone the last value of each instance; [Probe] finds whether the broker can
	Persistent                       // not supported: samples that outlive the broker
)

// History is what a writer keeps for its readers, and a reader for its
// application.
type History uint8

const (
	// KeepLast keeps the last Depth samples of each instance. A reader that is
	// slow misses the older ones.
	KeepLast History = iota
	// KeepAll keeps samples until every reader has acknowledged them, or the
	// application has taken them. At MaxSamples a writer blocks; a full reader
	// stops acknowledging, so that its writers block in turn.
	KeepAll
)

// QoS holds the policies of a writer or reader. The zero value is best effort,
// volatile, keep last 1. Policies marked "not supported" must stay zero;
// otherwise making the entity fails with ErrUnsupportedQoS. Deadline, Lifespan,
// Strength, Partition and TimeBasedFilter can be changed later, see Writer.SetQoS
// and Reader.SetQoS.
//
// Offered means the writer's QoS, requested the reader's. Reliability,
// Durability, Deadline, Liveliness and BySourceTime match when what is offered is at
// least what is requested, Exclusive when both say the same; otherwise no data flows
// between the two, and both get an IncompatibleQoS event.
type QoS struct {
	Reliability Reliability
	// MaxBlocking bounds how long Write of a reliable writer blocks; 0 is 1 s.
	MaxBlocking time.Duration
	// Transient needs Reliable. With TransientLocal a best-effort reader gets the
	// history whole and once, as a reliable one does, and then what comes. A
	// best-effort writer forgets its oldest sample at MaxSamples.
	Durability Durability
	History    History
	Depth      int // of KeepLast; 0 is 1. KeepAll ignores it, as in DDS
	// DurabilityService of a TransientLocal writer with KeepAll is how many samples of
	// each instance it holds for late joiners, in addition to those that a reader lacks;
	// 0 is all. A writer that goes on for ever needs it, because Write blocks while
	// MaxSamples are held: MaxSamples must be at least this number times the instances.
	DurabilityService int
	// MaxSamples bounds the samples held, over all instances; 0 is 8192. A reader does
	// not count changes of an instance's state, nor does Depth limit them there. A
	// writer counts them, but may dispose and unregister until it holds twice as many,
	// because an instance that is over makes room. Of a writer with
	// a durability they include what late joiners get; instances that are disposed or,
	// of TransientLocal, unregistered make room when all matched readers know.
	MaxSamples int
	// MaxInstances bounds the instances known to a reader; 0 is 8192. One that is
	// disposed or without writers, and read, makes room. At the bound a reader tells
	// SampleRejected: with KeepAll it stops acknowledging until there is room, with
	// KeepLast it drops samples of further instances. Of a writer it must stay zero.
	MaxInstances int

	// Deadline is the longest time between two samples of an instance, as offered by
	// the writer and requested by the reader; 0 is unlimited. A side that finds it missed
	// gets an event for each period.
	Deadline time.Duration
	// Lifespan of a writer is how long after it was written a sample is kept for
	// and by readers; 0 is for ever. It goes by the clocks of both: they should
	// differ by much less.
	Lifespan time.Duration
	// Liveliness says who asserts, within each LivelinessLease, that the writer is
	// alive. With a lease of 0, which is infinite, the writer is alive until it is closed,
	// the broker says that its participant died, or that participant does not come back
	// to a broker that crashed. The two are offered and requested together.
	Liveliness      Liveliness
	LivelinessLease time.Duration
	// Exclusive is OWNERSHIP: of the writers of an instance a reader listens only
	// to its owner, which is the one of the highest Strength, among equals the one
	// of the lowest GUID, that is alive and in time. Both sides must agree on it.
	// Readers decide for themselves and may disagree for a while: it is not a lock.
	Exclusive bool
	Strength  int // OWNERSHIP_STRENGTH of an exclusive writer
	// Partition names the parts of the domain that a writer or reader is in, at
	// most 16; none stands for "default". A name with * ? or [ is a pattern, as in
	// a POSIX shell. A writer and a reader match only if a name of one is a name of
	// the other or matches a pattern of it; otherwise they do not see each other,
	// and nobody is told. A writer publishes once to each partition that it names.
	Partition []string
	// TimeBasedFilter of a reader is the least time between two samples of an
	// instance; 0 is none. A sample that comes too soon waits until the time is
	// over or a newer one replaces it; a best-effort reader drops it. What changes
	// the state of an instance comes at once.
	TimeBasedFilter time.Duration
	// BySourceTime is DESTINATION_ORDER: readers give the samples of an instance in
	// the order of their source times, of equal ones in that of their writers'
	// GUIDs, and drop and count what comes too late for that. So all readers end
	// with the same one. It compares the writers' clocks. A reader that asks for it
	// matches only writers that offer it.
	BySourceTime bool
	// AllowCompatible is TYPE_CONSISTENCY of a reader: it matches writers of another
	// struct too, if both have the same key fields, at least one field in common, and
	// what is in common is of the same type. Fields that are missing stay zero.
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
