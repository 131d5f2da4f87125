package pubsub

import (
	"fmt"
	"slices"
	"time"

	"padme/pubsub/internal/partition"
)

// offer is the part of QoS that both sides must know. What is absent has the default;
// durations are in nanoseconds, 0 is infinite.
type offer struct {
	Reliability Reliability    `json:"reliability"`
	Durability  Durability     `json:"durability"`
	Deadline    time.Duration  `json:"deadline,omitempty"`
	Liveliness  Liveliness     `json:"liveliness,omitempty"`
	Lease       time.Duration  `json:"lease,omitempty"`
	Exclusive   bool           `json:"exclusive,omitempty"`
	Strength    int            `json:"strength,omitempty"`
	Partition   partition.List `json:"partition,omitempty"`
	BySource    bool           `json:"bySource,omitempty"`   // DESTINATION_ORDER
	Instance    string         `json:"instance,omitempty"`   // the only one a reader wants
	Compatible  bool           `json:"compatible,omitempty"` // TYPE_CONSISTENCY of a reader
	Bundles     bool           `json:"bundles,omitempty"`    // a writer may send them, a reader understands them
}

func (q *QoS) offer() offer {
	return offer{
		Reliability: q.Reliability, Durability: q.Durability,
		Deadline: q.Deadline, Liveliness: q.Liveliness, Lease: q.LivelinessLease,
		Exclusive: q.Exclusive, Strength: q.Strength,
		Partition: q.Partition, BySource: q.BySourceTime, Compatible: q.AllowCompatible,
	}
}

// policies are those of an announcement.
func (o *offer) policies() QoS {
	return QoS{
		Reliability: o.Reliability, Durability: o.Durability,
		Deadline: o.Deadline, Liveliness: o.Liveliness, LivelinessLease: o.Lease,
		Exclusive: o.Exclusive, Strength: o.Strength,
		Partition: slices.Clone(o.Partition), BySourceTime: o.BySource, AllowCompatible: o.Compatible,
	}
}

// check refuses what no participant announces.
func (o *offer) check() error {
	if o.Deadline < 0 || o.Lease < 0 {
		return fmt.Errorf("%w: a deadline of %v or a lease of %v", ErrInvalid, o.Deadline, o.Lease)
	}
	return nil
}

// incompatible names the first policy of which less is offered than requested,
// "" if there is none.
func incompatible(offered, requested offer) string {
	switch {
	case offered.Reliability < requested.Reliability:
		return "RELIABILITY"
	case offered.Durability < requested.Durability:
		return "DURABILITY"
	case longer(offered.Deadline, requested.Deadline):
		return "DEADLINE"
	case offered.Liveliness < requested.Liveliness || longer(offered.Lease, requested.Lease):
		return "LIVELINESS"
	case offered.Exclusive != requested.Exclusive:
		return "OWNERSHIP"
	case requested.BySource && !offered.BySource:
		return "DESTINATION_ORDER"
	}
	return ""
}

// longer compares durations of which 0 is infinite.
func longer(a, b time.Duration) bool {
	return b != 0 && (a == 0 || a > b)
}
