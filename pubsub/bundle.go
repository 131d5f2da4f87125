package pubsub

import (
	"fmt"
	"time"

	"padme/pubsub/internal/reliable"
)

// Coalescing puts samples which one writer has written in a row into one MQTT
// message, a bundle: their envelopes, one after the other. While nothing is on the way
// to the broker a sample goes at once; while something is, samples gather in the
// outbox until all of that is acknowledged, a bundle is full, somebody else's message
// waits behind it, or the delay is over. Below the outbox nobody knows of it, and above
// it nobody but the readers, who take bundles apart.

const (
	// maxBundles bounds the partitions of which a writer remembers a bundle: with a
	// pattern it is in all those that readers name.
	maxBundles = 1024
)

// WithCoalescing lets a writer gather small samples which are written in a row, and
// send them together: more samples a second for, under load, up to delay more latency.
// A sample is not held back when nothing is on the way to the broker. delay is above 0
// and at most 50 ms; 0 switches coalescing off, which is the default. Readers see no
// difference. Transient writers cannot have it, because the broker keeps messages and
// not samples. While a reader that does not understand it is matched, samples go alone.
// No sample gathers for longer than a quarter of the writer's Lifespan or Deadline.
func WithCoalescing(delay time.Duration) EndpointOption {
	return func(o *endpointOptions) { o.coalescing = delay }
}

// checkCoalescing refuses what a writer could not do.
func (o *endpointOptions) checkCoalescing() error {
	switch {
	case o.coalescing < 0 || o.coalescing > reliable.MaxCoalescing:
		return fmt.Errorf("%w: coalescing for %v, give 0 to %v", ErrInvalid, o.coalescing, reliable.MaxCoalescing)
	case o.coalescing > 0 && o.Durability == Transient:
		return fmt.Errorf("%w: a transient writer cannot coalesce: the broker keeps the last message of an instance, which must be one sample", ErrInvalid)
	}
	return nil
}
