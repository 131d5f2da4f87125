package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"padme/internal/wait"
)

// Abilities are what Probe has found a broker to support.
type Abilities struct {
	Retained          bool          // it returns a retained message to a subscription to its topic
	RetainedWildcards bool          // and to one with a wildcard
	Largest           int           // of the payload sizes tried, the largest in bytes that the broker delivered
	RoundTrip         time.Duration // of a message to oneself at QoS 1, the median of several
}

const (
	// probeWait is how long what a broker does may take, and each thing that it
	// does not do does take.
	probeWait = 3 * time.Second
	// slowRoundTrip is what only a delayed acknowledgement of TCP explains.
	slowRoundTrip = 35 * time.Millisecond
)

// Warnings returns a sentence for each missing ability, with its consequence and the
// remedy. It is empty for a broker that supports everything.
func (a Abilities) Warnings() (all []string) {
	if !a.Retained {
		all = append(all, "the broker returns no retained messages: transient readers get nothing of writers that are gone, and a watcher that comes late does not learn who holds a lock; switch retained messages on")
	} else if !a.RetainedWildcards {
		all = append(all, "the broker returns no retained message for a wildcard, as RabbitMQ does: transient readers get nothing of writers that are gone (use TransientLocal and keep the writers alive); who watches all resources of a lock learns of each only when it changes, so watch them by name")
	}
	if a.Largest < MaxPayload {
		all = append(all, fmt.Sprintf("the broker carried %d bytes and not %d: a larger payload may cost the connection; raise its limit (mosquitto: message_size_limit, NATS: max_payload, RabbitMQ: max_message_size) or send less at once", a.Largest, MaxPayload))
	}
	if a.RoundTrip >= slowRoundTrip {
		all = append(all, fmt.Sprintf("a round trip takes %v: if the broker is near, let it set TCP_NODELAY (mosquitto: set_tcp_nodelay true)", a.RoundTrip.Round(time.Millisecond)))
	}
	return all
}

// Probe joins as the participant id, which must not be alive, and tests what the broker
// supports. It takes a few seconds, longer if something is missing, and leaves nothing
// behind. Errors are those of Join, and that of ctx.
func Probe(ctx context.Context, url, id string, opts ...Option) (a Abilities, err error) {
	p, err := Join(ctx, url, id, opts...)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	if a.Retained, err = p.probeRetained(ctx, id); err != nil {
		return a, err
	}
	if a.RetainedWildcards, err = p.probeRetained(ctx, "+"); err != nil {
		return a, err
	}
	messages := make(chan int, 1)
	stop, err := p.Inbox("probe", func(l Message) {
		select {
		case messages <- len(l.Payload):
		default:
		}
	})
	if err != nil {
		return a, err
	}
	defer stop()
	var trips [5]time.Duration
	for i := range trips {
		began := time.Now()
		if _, err := p.probeMessage(ctx, 1, messages); err != nil {
			return a, err
		}
		trips[i] = time.Since(began)
	}
	slices.Sort(trips[:])
	a.RoundTrip = trips[len(trips)/2]
	for size := MaxPayload; size > 0 && a.Largest == 0; size /= 4 {
		carried, err := p.probeMessage(ctx, size, messages)
		if err != nil {
			return a, err
		}
		if carried {
			a.Largest = size
		}
	}
	return a, nil
}

// probeRetained reports whether a new subscription to presences brings the own birth,
// which is retained. It tries twice: NATS neither returns nor delivers what is published
// while it makes a subscription.
func (p *Participant) probeRetained(ctx context.Context, level string) (seen bool, err error) {
	for range 2 {
		if seen, err = p.birthReturned(ctx, level); seen || err != nil {
			break
		}
	}
	return seen, err
}

func (p *Participant) birthReturned(ctx context.Context, level string) (bool, error) {
	seen := make(chan struct{}, 1)
	stop, err := p.SubscribeRaw(ctx, Main, []string{"presence", level}, func(m RawMessage) {
		if m.Retained && m.Levels[1] == p.id {
			wait.Signal(seen)
		}
	})
	if err != nil {
		return false, err
	}
	defer stop()
	return await(ctx, seen, func(struct{}) bool { return true })
}

// probeMessage reports whether a message to oneself arrives.
func (p *Participant) probeMessage(ctx context.Context, size int, messages chan int) (bool, error) {
	if _, err := p.main.Online(ctx); err != nil { // a message that was too large may have cost the connection
		return false, err
	}
	if err := p.Send(p.id, "probe", make([]byte, size)); err != nil && !errors.Is(err, ErrOffline) {
		return false, err
	}
	return await(ctx, messages, func(n int) bool { return n == size }) // not a late one
}

// await reports whether what is wanted comes in time.
func await[T any](ctx context.Context, ch <-chan T, wanted func(T) bool) (bool, error) {
	timeout := time.NewTimer(probeWait)
	defer timeout.Stop()
	for {
		select {
		case v := <-ch:
			if wanted(v) {
				return true, nil
			}
		case <-timeout.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
