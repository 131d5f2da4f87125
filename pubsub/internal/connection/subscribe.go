package connection

import (
	"context"
	"errors"
	"sync"

	"padme/internal/wait"
	"padme/pubsub/internal/failure"
)

// Subscribe adds a handler and returns when the broker has granted filter.
func (l *Lane) Subscribe(ctx context.Context, filter, below string, handler func(topic string, payload []byte, retained bool)) (stop func(), err error) {
	r := l.routes.add(below, filter, handler)
	for {
		k, err := l.Online(ctx)
		if err == nil {
			err = l.request(ctx, k, filter)
		}
		if err == nil {
			return sync.OnceFunc(func() { l.unsubscribe(r) }), nil
		}
		if !errors.Is(err, failure.ErrOffline) {
			l.unsubscribe(r)
			return nil, err
		}
		if !wait.Sleep(ctx, minBackoff) { // the link is about to be replaced
			l.unsubscribe(r)
			return nil, context.Cause(ctx)
		}
	}
}

// qos is that of subscriptions.
func (l *Lane) qos() byte {
	if l.Once {
		return 0
	}
	return 1
}

// request subscribes through the outbox, so that it keeps its order with
// unsubscriptions of the same filter.
func (l *Lane) request(ctx context.Context, k *Link, filter string) error {
	for range 10 {
		sent := make(chan receipt, 1)
		if err := l.Out.Put(Packet{op: func(k *Link, _ *flight) { sent <- k.subscribe(filter, l.qos()) }}); err != nil {
			return err
		}
		var err error
		select {
		case r := <-sent:
			err = r.Wait(ctx)
		case <-k.lost:
			err = failure.ErrOffline
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if !packetIDInUse(err) {
			return err
		}
	}
	return failure.ErrOffline
}

// packetIDInUse recognizes a broker which keeps one set of packet ids for both
// directions and refuses a subscription whose id it happens to use itself. The
// next id will do.
func packetIDInUse(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.code == 0x91
}

// Resubscribe asks for every filter of the lane on a new link.
func (l *Lane) Resubscribe(ctx context.Context, k *Link) error {
	return SubscribeAll(ctx, k, l.Filters(), l.qos())
}

// subscribeAtOnce is for how many subscriptions the broker is asked before it has granted
// the first of them. Each brings what is retained, and who has thousands would have the
// broker and itself do nothing else, so that neither is heard to live.
const subscribeAtOnce = 64

// SubscribeAll returns when the broker has granted all filters; a refusal is a *Refusal. It
// has a ConnectTimeout for each that is granted, not for all of them.
func SubscribeAll(ctx context.Context, k *Link, filters []string, qos byte) error {
	for range 10 {
		var again []string
		asked := make([]receipt, 0, min(len(filters), subscribeAtOnce))
		for len(filters) > 0 || len(asked) > 0 {
			for len(filters) > 0 && len(asked) < subscribeAtOnce {
				asked, filters = append(asked, k.subscribe(filters[0], qos)), filters[1:]
			}
			r := asked[0]
			asked = append(asked[:0], asked[1:]...)
			err := r.waitFor(ctx, ConnectTimeout)
			if packetIDInUse(err) {
				again = append(again, r.topic)
			} else if err != nil {
				return err
			}
		}
		if filters = again; filters == nil {
			return nil
		}
	}
	return failure.ErrOffline
}

func (l *Lane) unsubscribe(r *route) {
	if !l.routes.remove(r) {
		return
	}
	// Offline there is nothing to undo.
	_ = l.Out.Put(Packet{op: func(k *Link, _ *flight) {
		// Somebody may have subscribed, and been granted, between remove and put.
		if !l.routes.has(r.filter) {
			k.unsubscribe(r.filter)
		}
	}})
}
