package pubsub

import (
	"context"
	"errors"
	"fmt"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/level"
)

// Unannounced joins without a presence. Others do not see this participant, it has no
// inbox, and its id need not be free, so joining costs one round trip. It suits short-lived
// programs, and observers, which may write nothing. Raw topics, Peers, Endpoints and
// ObserveSamples work as usual. What needs a presence returns ErrUnannounced: writers,
// readers, Send, Post, Inbox, and everything based on them.
//
// It does not ask the others to announce themselves, because none could answer it. So at a
// broker that returns no retained messages for wildcards (RabbitMQ), Peers and Endpoints
// know only what has changed since it joined.
func Unannounced() Option {
	return func(o *options) error {
		o.unannounced = true
		return nil
	}
}

// WithWill makes the broker publish payload, at QoS 1 and not retained, on the topic below
// Root with the given unencoded levels, whenever the connection ends in any way but by
// Close: also each time it is only lost. It requires Unannounced, because the last will of
// other participants is their death.
func WithWill(levels []string, payload []byte) Option {
	return func(o *options) error {
		o.willLevels, o.willPayload = append([]string{}, levels...), append([]byte{}, payload...)
		if _, err := level.EncodeTopic("", levels); err != nil {
			return fmt.Errorf("the topic of the will: %w", err)
		}
		return checkPayload(payload)
	}
}

// checkPresence refuses options that contradict each other.
func (o *options) checkPresence() error {
	switch {
	case o.willLevels != nil && !o.unannounced:
		return fmt.Errorf("%w: WithWill without Unannounced: the last will of this participant is its death", ErrInvalid)
	case o.unannounced && o.userData != nil:
		return fmt.Errorf("%w: WithUserData with Unannounced: user data is published with the presence, and there is none", ErrInvalid)
	case o.unannounced && o.takeover:
		return fmt.Errorf("%w: WithTakeover with Unannounced: it takes no id", ErrInvalid)
	}
	return nil
}

// needPresence is the error of what does not work without.
func (p *Participant) needPresence(what string) error {
	if !p.unannounced {
		return nil
	}
	return fmt.Errorf("%w: %s needs one: join participant %q without pubsub.Unannounced", ErrUnannounced, what, p.id)
}

// will is what the broker publishes when the connection is lost.
func (p *Participant) will(birth *discovery.Birth) connection.Packet {
	switch {
	case birth != nil:
		return birth.Death
	case p.willLevels == nil:
		return connection.Packet{}
	}
	topic, _ := level.EncodeTopic(p.root, p.willLevels) // checked by the option
	return connection.Packet{Topic: topic, Payload: p.willPayload}
}

// resubscribe asks for what was granted on an earlier connection. A filter that is
// refused for long is done without.
func (p *Participant) resubscribe(ctx context.Context, k *connection.Link) error {
	err := p.main.Resubscribe(ctx, k)
	var r *connection.Refusal
	switch {
	case err == nil:
		p.refusals = 0
		return nil
	case !errors.As(err, &r):
		return err
	}
	if p.refusals++; p.refusals < maxRefusals {
		return err
	}
	p.log.Error("a subscription was not granted again", "filter", r.Filter, "error", err)
	return nil
}
