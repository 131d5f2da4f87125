package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

// RoleTopic is the lock topic in which gateways agree on who answers: for lock topic
// T the holder of resource T.
const RoleTopic = "gateway"

// maxTopics bounds the lock topics that strangers can have opened by naming them.
const maxTopics = 256

// reserved names lock topics that are never offered.
func reserved(name string) bool {
	return slices.Contains([]string{RoleTopic, qosmutex.Any, "join", "client", "member"}, name)
}

type gateway struct {
	options
	p     *pubsub.Participant
	count counters
	role  *membership
	wg    sync.WaitGroup

	mu    sync.Mutex
	desks map[string]*desk // nil once no more are opened

	clients, live atomic.Int32 // of all desks
}

// Serve offers lock topics to MQTT clients through participant p, which must be
// allowed to read requests and write answers of everybody: at an embedded broker with
// users, the role gateway. It opens the lock topics on p, so p must not have them open
// already, and creates those that have no root, with any resource.
//
// It blocks until ctx or p ends. After ctx it tells its clients that their holds are
// lost, keeps them until no client can believe in them any more (at most the TTL), and
// returns nil; after p an error that wraps qosmutex.ErrClosed.
func Serve(ctx context.Context, p *pubsub.Participant, opts ...Option) error {
	o, err := optionsOf(opts)
	if err != nil {
		return err
	}
	g := &gateway{options: o, p: p, count: newCounters(), desks: map[string]*desk{}}
	unregister, err := g.count.register(o.metrics, p.ID())
	if err != nil {
		return err
	}
	defer unregister()
	g.role = newMembership(g, RoleTopic)
	roleCtx, leave := context.WithCancel(context.WithoutCancel(ctx)) // it outlasts the desks, which give their roles back
	var role sync.WaitGroup
	role.Go(func() { g.role.run(roleCtx) })
	defer role.Wait()
	defer leave()

	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		g.shut()
	}()
	for _, name := range o.topics {
		g.desk(ctx, name)
	}
	topic := "+"
	if len(o.topics) == 1 {
		topic = o.topics[0]
	}
	stop, err := p.SubscribeRaw(ctx, []string{"lock", topic, "client", "+", "request"}, func(m pubsub.RawMessage) { g.heard(ctx, m) })
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("gateway: reading requests: %w: is the user of participant %q a gateway?", err, p.ID())
	}
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-p.Done():
		return fmt.Errorf("%w: participant %q has ended: %w", qosmutex.ErrClosed, p.ID(), p.Err())
	}
}

// shut opens no more desks and waits for those that are open.
func (g *gateway) shut() {
	g.mu.Lock()
	g.desks = nil
	g.mu.Unlock()
	g.wg.Wait()
}

// heard hands a message to its desk. It runs on the goroutine which reads from the
// network.
func (g *gateway) heard(ctx context.Context, m pubsub.RawMessage) {
	if len(m.Levels) != 5 {
		return
	}
	letter := letter{client: m.Levels[3], retained: m.Retained, at: time.Now()}
	if len(m.Payload) > maxPayload {
		letter.tooLarge = len(m.Payload)
	} else {
		letter.payload = bytes.Clone(m.Payload)
	}
	name := m.Levels[1]
	d, reason := g.desk(ctx, name)
	if d == nil {
		g.count.refused.WithLabelValues(string(reason)).Inc()
		if reason != NotOffered { // somebody else may offer it
			g.send(name, letter.client, Answer{Outcome: Denied, Reason: reason, Detail: "too many lock topics are open"})
		}
		return
	}
	select {
	case d.letters <- letter:
	default:
		g.count.refused.WithLabelValues(string(Overload)).Inc()
	}
}

// desk returns the desk of a lock topic and opens it if need be.
func (g *gateway) desk(ctx context.Context, name string) (*desk, Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.desks[name]
	switch {
	case d != nil:
		return d, ""
	case reserved(name), len(g.topics) > 0 && !slices.Contains(g.topics, name), g.desks == nil:
		return nil, NotOffered
	case len(g.desks) >= maxTopics:
		return nil, TooMany
	}
	d = newDesk(g, name)
	g.desks[name] = d
	g.wg.Go(func() { d.run(ctx) })
	return d, ""
}

// send publishes an answer. It is not repeated: whoever misses one asks again.
func (g *gateway) send(topic, client string, a Answer) {
	a.Gateway = g.p.ID()
	payload, err := json.Marshal(a)
	if err == nil {
		err = g.p.PublishRaw(pubsub.Main, []string{"lock", topic, "client", client, "answer"}, payload, false)
	}
	if err != nil {
		g.count.unsent.Inc()
		g.log.Debug("answer not sent", "lock", topic, "client", client, "error", err)
		return
	}
	g.count.answers.WithLabelValues(string(a.Outcome)).Inc()
}

// open opens a lock topic, and creates it if it has no root: one whose root is
// next to the broker outlives this gateway.
func (g *gateway) open(ctx context.Context, name string) (*qosmutex.Topic, error) {
	own := append(slices.Clone(g.lock),
		qosmutex.WithNodePriority(nodePriority))
	if g.shared { // who is the root is kept outside: create it if there is none
		return qosmutex.Open(ctx, g.p, name, append(own, qosmutex.Create(), qosmutex.WithOpenResources(), qosmutex.WithTiming(g.timing))...)
	}
	t, err := qosmutex.Open(ctx, g.p, name, own...)
	if errors.Is(err, qosmutex.ErrNoRoot) {
		t, err = qosmutex.Open(ctx, g.p, name, append(own, qosmutex.Create(), qosmutex.WithOpenResources(), qosmutex.WithTiming(g.timing))...)
	}
	return t, err
}
