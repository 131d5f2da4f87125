package pubsub

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/wire"
)

// echoes finds out when what the broker kept has arrived: it delivers to us in
// order, so what we write to ourselves after a subscription comes after that.
type echoes struct {
	mu      sync.Mutex
	count   int
	waiting map[string]chan struct{}
}

// echoAgain is how long an echo may take before it is sent again: the connection
// may have been lost with it.
const echoAgain = 2 * time.Second

// caughtUp blocks until everything has arrived that the broker keeps for the
// subscriptions of the main lane granted so far.
func (x *exchange) caughtUp(ctx context.Context) error {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	return x.echoes.await(ctx, "main", x.p.main.Out, x.p.inbox.prefix+x.p.level, x.p.incarnation)
}

// samplesCame is caughtUp for the data lane.
func (x *exchange) samplesCame(ctx context.Context) error {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	topic := x.p.inbox.prefix + x.p.level
	stop, err := x.p.subscribe(ctx, x.data, topic, func(_ string, payload []byte, _ bool) {
		var e wire.Envelope
		if wire.Parse(payload, &e) == nil && e.Kind == wire.KindEcho {
			x.echoes.heard("data", string(e.Body))
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	return x.echoes.await(ctx, "data", x.data.Out, topic, x.p.incarnation)
}

// survey blocks until it is known which writers of a topic live, and what the broker keeps
// of those that are gone has arrived. done is to be called once there is a reader.
func (x *exchange) survey(ctx context.Context, topic string) (done func(), err error) {
	done, err = x.p.directory.Survey(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err = x.samplesCame(ctx); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// await sends an echo on a lane until it comes back on it.
func (es *echoes) await(ctx context.Context, lane string, out connection.Outbox, topic string, incarnation uint64) error {
	es.mu.Lock()
	if es.waiting == nil {
		es.waiting = map[string]chan struct{}{}
	}
	es.count++
	id, back := lane+strconv.Itoa(es.count), make(chan struct{})
	es.waiting[id] = back
	es.mu.Unlock()
	defer func() {
		es.mu.Lock()
		delete(es.waiting, id)
		es.mu.Unlock()
	}()
	echo := wire.Envelope{Kind: wire.KindEcho, Epoch: incarnation, Body: []byte(id)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-back:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			timer.Reset(echoAgain)
			// While offline it is sent again.
			_ = out.Put(connection.Packet{Topic: topic, Payload: wire.Append(nil, &echo), QoS: 1})
		}
	}
}

// heard handles an echo that came back on a lane.
func (es *echoes) heard(lane, id string) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if back := es.waiting[id]; back != nil && strings.HasPrefix(id, lane) {
		close(back)
		delete(es.waiting, id)
	}
}
