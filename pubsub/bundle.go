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

// WithCoalescing lets a writer gather small samples that are written in quick succession
// and send them together. This raises throughput at the cost of up to delay of extra
// latency under load. A sample is not delayed while nothing is in transit to the broker.
// delay is above 0 and at most 50 ms; 0, the default, switches coalescing off. Readers see
// no difference. Transient writers cannot use it, because the broker retains messages, not
// samples. While a reader that does not support it is matched, samples are sent one by one.
// No sample waits longer than a quarter of the writer's Lifespan or Deadline.
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
