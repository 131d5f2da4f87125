package scenario

import (
	"cmp"
	"context"
	"errors"
	"time"

	"padme/pubsub"
)

// joinEvery is how long a patient participant waits before it tries again.
const joinEvery = 200 * time.Millisecond

// InDomain has a participant join the domain of the run.
func (c *Config) InDomain() pubsub.Option { return pubsub.WithDomain(cmp.Or(c.Domain, Domain)) }

// Join makes a participant, in Domain unless an option says otherwise. A patient one tries until ctx ends while
// there is no broker.
func Join(ctx context.Context, patient bool, url, id string, opts ...pubsub.Option) (*pubsub.Participant, error) {
	opts = append([]pubsub.Option{pubsub.WithDomain(Domain)}, opts...)
	again := time.NewTicker(joinEvery)
	defer again.Stop()
	for {
		p, err := pubsub.Join(ctx, url, id, opts...)
		if !patient || !errors.Is(err, pubsub.ErrUnreachable) {
			return p, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}
