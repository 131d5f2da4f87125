package pubsub

import (
	"fmt"
	"slices"
)

// validateData checks the policies that select data.
func (q *QoS) validateData() error {
	switch {
	case q.TimeBasedFilter < 0:
		return fmt.Errorf("%w: TimeBasedFilter %v is negative", ErrInvalid, q.TimeBasedFilter)
	case q.Deadline > 0 && q.TimeBasedFilter > q.Deadline:
		return fmt.Errorf("%w: TimeBasedFilter %v is above Deadline %v: each period would be missed", ErrInvalid, q.TimeBasedFilter, q.Deadline)
	}
	return partitions(q.Partition).validate()
}

// checkWriterData refuses what only a reader can have: a writer would ignore it.
func (q *QoS) checkWriterData() error {
	switch {
	case q.TimeBasedFilter != 0:
		return fmt.Errorf("%w: TimeBasedFilter is a policy of readers, leave it at zero", ErrInvalid)
	case q.AllowCompatible:
		return fmt.Errorf("%w: AllowCompatible is a policy of readers, leave it false", ErrInvalid)
	case q.Durability == Transient && slices.ContainsFunc(q.Partition, isPattern):
		return fmt.Errorf("%w: a transient writer keeps its samples for readers to come, so it must name its partitions: %q has a pattern", ErrInvalid, q.Partition)
	}
	return nil
}

// dataOffer is the part of an offer that tells of the selection of data. What is
// absent has the default.
type dataOffer struct {
	Partition  partitions `json:"partition,omitempty"`
	BySource   bool       `json:"bySource,omitempty"`   // DESTINATION_ORDER
	Instance   string     `json:"instance,omitempty"`   // the only one a reader wants
	Compatible bool       `json:"compatible,omitempty"` // TYPE_CONSISTENCY of a reader
	Bundles    bool       `json:"bundles,omitempty"`    // a writer may send them, a reader understands them
}

func (q *QoS) dataOffer() dataOffer {
	return dataOffer{Partition: q.Partition, BySource: q.BySourceTime, Compatible: q.AllowCompatible}
}

// incompatibleData names the first policy of which less is offered than
// requested, "" if there is none.
func incompatibleData(offered, requested dataOffer) string {
	if requested.BySource && !offered.BySource {
		return "DESTINATION_ORDER"
	}
	return ""
}
