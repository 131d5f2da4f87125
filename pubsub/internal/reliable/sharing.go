package reliable

import (
	"slices"
	"time"

	"padme/pubsub/internal/partition"
)

// MaxCoalescing bounds how long samples gather, well below the time between heartbeats,
// which ask readers for acknowledgements of what may still gather.
const MaxCoalescing = minBeat / 2

// Sharing is with whom a writer's samples may share a message.
type Sharing uint8

// What a sample may share a message with.
const (
	Alone        Sharing = iota
	SameInstance         // a narrow reader subscribes to one instance
	AnyInstance
)

// regroup follows the readers.
func (s *Sender) regroup() {
	s.sharing = Alone
	if s.coalescing > 0 {
		s.sharing = AnyInstance
	}
	for _, r := range s.readers {
		switch {
		case !r.bundles:
			s.sharing = Alone
			return
		case r.instance != "":
			s.sharing = min(s.sharing, SameInstance)
		}
	}
}

// gather has samples gather for as long as the policies allow: not for as long as they
// live, nor until readers miss them.
func (s *Sender) gather() {
	delay := s.coalescing
	for _, period := range []time.Duration{s.qos.Lifespan, s.qos.Deadline} {
		if period > 0 {
			delay = min(delay, period/4)
		}
	}
	s.out.Gather(delay)
}

// places are the partitions of the readers.
func (s *Sender) places(yield func(partition.List) bool) {
	for _, r := range s.readers {
		if !yield(r.partitions) {
			return
		}
	}
}

// repartition follows the readers.
func (s *Sender) repartition() {
	if slices.ContainsFunc(s.qos.Partitions, partition.IsPattern) {
		s.partitions = s.qos.Partitions.Published(s.places)
	}
}
