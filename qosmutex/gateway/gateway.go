package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/internal/limited"
	"padme/qosmutex/jsonlock"
)

// RoleTopic is the lock topic in which gateways agree on which of them answers: for lock
// topic T, the holder of resource T. A client's `gone` there ends its session in all lock
// topics.
const RoleTopic = "gateway"

// reserved names lock topics that are never offered.
func reserved(name string) bool {
	return slices.Contains([]string{RoleTopic, qosmutex.Any, "join", "client", "member"}, name)
}

type gateway struct {
	options
	server *qosmutex.Server
	p      *pubsub.Participant
	count  counters
	wg     sync.WaitGroup

	mu       sync.Mutex
	topics   map[string]*topic   // nil once no more are opened
	known    map[string][]*topic // by client: those in which it is known
	resume   map[string]bool     // lock topics in which something of an earlier process goes on
	named    map[string]int      // by client: how many of topics it was the first to name
	removing map[string]bool     // lock topics that are being removed
	denied   bucket              // answers to those that are turned away

	reached *limited.Log
	rates   *rates

	clients, remembered atomic.Int32 // clients, and requests that have ended; of all topics
	live                live
	unread              unread
	answers             answers

	// turns is full while as many lock topics as may at a time do what clients ask: hundreds at once
	// would each have a turn of the processors before a lock message of others has one.
	turns chan struct{}
}

// Serve offers lock topics to MQTT clients through the participant of server. The
// participant must be allowed to read the requests of all clients and to write their
// answers: at an embedded broker with users that is the role gateway. Otherwise Serve
// returns an error that wraps pubsub.ErrRefused at once. Serve opens lock topics on server,
// so clients of topics that server roots are answered without another message. If server
// has [qosmutex.Resume], clients keep the holds that they had through an earlier process.
//
// Serve blocks until ctx or the participant ends. When ctx ends, it reports to its clients
// that their holds are lost, keeps the holds until no client can rely on them any more (at
// most the TTL), and returns nil. When the participant ends, it reports nothing to clients
// and returns an error that wraps qosmutex.ErrClosed.
//
// So to restart a process without losing its clients' holds, do not end ctx if
// [qosmutex.Server.LeavesHolds] reports true: close the participant, wait for Serve to
// return, and then close the server. The next process needs the same file
// ([qosmutex.KeepIn]) and [qosmutex.Resume].
func Serve(ctx context.Context, server *qosmutex.Server, opts ...Option) error {
	o, err := optionsOf(opts)
	if err != nil {
		return err
	}
	if server.Participant() == nil {
		return fmt.Errorf("%w: this Server is not from NewServer: look at the error that NewServer returned", qosmutex.ErrClosed)
	}
	return newGateway(o, server).run(ctx)
}

func newGateway(o options, server *qosmutex.Server) *gateway {
	g := &gateway{
		options: o, server: server, p: server.Participant(),
		topics: map[string]*topic{}, named: map[string]int{}, removing: map[string]bool{}, known: map[string][]*topic{}, denied: newBucket(time.Now(), deniedRate),
		reached: limited.New(o.log, "client", limits), turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	g.rates, g.unread, g.count = newRates(time.Now(), &g.limits), newUnread(&g.limits), newCounters(g)
	g.answers = answers{each: g.limits.ClientRequests, most: g.limits.Requests, publish: g.publish, dropped: func(n int) { g.count.unsent.Add(float64(n)) }, ended: g.p.Done()}
	return g
}

// run is Serve.
func (g *gateway) run(ctx context.Context) error {
	unregister, err := g.count.register(g.metrics, g.p.ID())
	if err != nil {
		return err
	}
	defer unregister()
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		g.shut()
	}()
	if err := g.mayServe(ctx); err != nil {
		return g.ended(ctx, err)
	}
	g.goOn(ctx)
	for _, name := range g.only {
		_, _ = g.topic(ctx, name, "")
	}
	for _, name := range g.filters() {
		stop, err := g.p.SubscribeRaw(ctx, pubsub.Crowd, []string{"lock", name, "client", "+", "request"}, func(m pubsub.RawMessage) { g.heard(ctx, m) })
		if err != nil {
			return g.ended(ctx, fmt.Errorf("gateway: reading requests: %w", err))
		}
		defer stop()
	}
	g.ready()
	look := time.NewTicker(sweepEvery)
	defer look.Stop()
	for {
		select {
		case now := <-look.C:
			g.giveUpIdle(now)
			continue
		case <-ctx.Done():
		case <-g.p.Done():
		}
		return g.ended(ctx, nil)
	}
}

// ended is what Serve returns.
func (g *gateway) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		err = nil // whatever that interrupted
	case g.p.Err() != nil:
		err = fmt.Errorf("%w: participant %q has ended: %w", qosmutex.ErrClosed, g.p.ID(), g.p.Err())
	}
	return err
}

// filters are the lock topics whose requests are read.
func (g *gateway) filters() []string {
	if len(g.only) == 1 {
		return []string{g.only[0], RoleTopic}
	}
	return []string{"+"}
}

// shut opens no more topics and waits for those that are open.
func (g *gateway) shut() {
	g.mu.Lock()
	g.topics = nil
	g.mu.Unlock()
	g.wg.Wait()
	g.answers.close()
}

// heard hands a message to its topic. It runs on the goroutine which reads from the network:
// where the broker is in this process, on that of the client's connection.
func (g *gateway) heard(ctx context.Context, raw pubsub.RawMessage) {
	if len(raw.Levels) != 5 {
		return
	}
	m := message{client: raw.Levels[3], retained: raw.Retained, at: time.Now()}
	if len(raw.Payload) > jsonlock.MaxRequest {
		m.tooLarge = len(raw.Payload)
	} else {
		m.payload = raw.Payload
	}
	m.ahead = m.mayOvertake()
	name := raw.Levels[1]
	switch {
	case name != RoleTopic && !g.offers(name): // somebody else may
		g.count.refused.WithLabelValues(string(jsonlock.NotOffered)).Inc()
		return
	case m.retained && name != RoleTopic && !g.isOpen(name): // who asked is long gone, and a broker may keep thousands
		g.count.refused.WithLabelValues(string(jsonlock.Stale)).Inc()
		return
	case !g.rates.take(&m):
		g.count.refused.WithLabelValues(string(jsonlock.TooFast)).Inc()
		g.beyond(limitShare, name, m.client, m.at)
		return
	}
	m.payload = bytes.Clone(m.payload)
	if name == RoleTopic {
		g.heardOfAll(&m)
		return
	}
	if lock, resource, given := strings.Cut(name, "/"); given {
		g.turnAway(name, &m, jsonlock.BadResource, "lock %q: a slash is for resources: ask for the resource %q of the lock %q", name, resource, lock)
		return
	}
	if g.removal(ctx, name, &m) {
		return
	}
	t, refusal := g.topic(ctx, name, m.client)
	switch {
	case refusal != nil && refusal.Reason == jsonlock.NotOffered: // somebody else may offer it
		g.count.refused.WithLabelValues(string(refusal.Reason)).Inc()
	case refusal != nil:
		g.turnAway(name, &m, refusal.Reason, "%s", refusal.Detail)
	default:
		if limit := t.inbox.put(m); limit != noLimit {
			g.unheard(t, &m, limit)
		}
	}
}

// unheard turns away a client whose message found no room in an inbox.
func (g *gateway) unheard(t *topic, m *message, limit int) {
	g.beyond(limit, t.name, m.client, m.at)
	switch {
	case limit == limitUnread:
		g.turnAway(t.name, m, jsonlock.Overload, "the server is busy: it cannot read as fast as requests come; ask again in a while")
	case t.active.Load(): // else another gateway reads what this one only keeps
		g.turnAway(t.name, m, jsonlock.Overload, "%d messages of this client wait to be read, the most that may: wait for answers before you ask for more", g.unread.each)
	default:
		g.count.refused.WithLabelValues(string(jsonlock.Overload)).Inc()
	}
}

// heardOfAll hands the end of a session to all topics that know its client.
func (g *gateway) heardOfAll(m *message) {
	r, err := jsonlock.DecodeRequest(m.payload)
	if err != nil || r.ID != "" || r.Op != jsonlock.Gone && r.Op != jsonlock.Release {
		g.count.refused.WithLabelValues(string(jsonlock.NotOffered)).Inc()
		return
	}
	m.decoded, m.payload = &r, nil // once for all topics
	g.mu.Lock()
	topics := slices.Clone(g.known[m.client])
	g.mu.Unlock()
	if !g.rates.takeEnd(m, len(topics)) {
		g.count.refused.WithLabelValues(string(jsonlock.TooFast)).Inc()
		g.beyond(limitEnds, RoleTopic, m.client, m.at)
		return
	}
	for _, t := range topics {
		if limit := t.inbox.put(*m); limit != noLimit { // what is not heard ends with its lease
			g.count.refused.WithLabelValues(string(jsonlock.Overload)).Inc()
			g.beyond(limit, t.name, m.client, m.at)
		}
	}
}

// know notes that a client is known in a topic, or not any more.
func (g *gateway) know(client string, t *topic, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known {
		g.clients.Add(1)
		g.known[client] = append(g.known[client], t)
		return
	}
	g.clients.Add(-1)
	left := slices.DeleteFunc(g.known[client], func(o *topic) bool { return o == t })
	if g.known[client] = left; len(left) == 0 {
		delete(g.known, client)
	}
}

// knows counts the clients that are known.
func (g *gateway) knows() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.known)
}

// offers reports whether clients can ask for a lock topic here.
func (g *gateway) offers(name string) bool {
	name, _, _ = strings.Cut(name, "/") // somebody means a resource, and is told so
	return !reserved(name) && (len(g.only) == 0 || slices.Contains(g.only, name))
}

func (g *gateway) isOpen(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.topics[name] != nil
}

// turnAway tells somebody who wants a lock that the server has too much to do. Other
// messages are repeated, or their leases end.
func (g *gateway) turnAway(topic string, m *message, reason jsonlock.Reason, detail string, args ...any) {
	g.count.refused.WithLabelValues(string(reason)).Inc()
	if !g.mayDeny(topic, m.client, m.at) {
		return
	}
	if r, err := jsonlock.DecodeRequest(m.payload); err == nil && r.Op == jsonlock.Acquire {
		g.send(topic, m.client, jsonlock.Answer{
			ID: r.ID, Session: r.Session, Op: r.Op, Sent: r.Sent, Outcome: jsonlock.Denied, Reason: reason, Detail: fmt.Sprintf(detail, args...),
		})
	}
}

// mayDeny reports whether somebody who is turned away is to be told: such answers are bounded
// in all.
func (g *gateway) mayDeny(lock, client string, now time.Time) bool {
	may := g.mayExcuse(now)
	if !may {
		g.beyond(limitDenials, lock, client, now)
	}
	return may
}

// mayExcuse is mayDeny for those who are told that a server is not ready: that is nobody's fault, so no
// limit is said to be reached.
func (g *gateway) mayExcuse(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied.take(now)
}

// send publishes an answer. It is not repeated: whoever misses one asks again.
func (g *gateway) send(topic, client string, a jsonlock.Answer) {
	a.Gateway = g.p.ID()
	payload, err := json.Marshal(a)
	if err == nil {
		err = g.answers.send(&answer{topic, client, payload})
	}
	if err != nil {
		g.count.unsent.Inc()
		g.log.Debug("answer not sent", "lock", topic, "client", client, "error", err)
		return
	}
	g.count.answers.WithLabelValues(string(a.Outcome)).Inc()
}

func (g *gateway) publish(a *answer) error {
	if err := g.p.Err(); err != nil {
		return err
	}
	if g.p.SpareQueued() >= answersAtOnce {
		return pubsub.ErrBacklog
	}
	return g.p.PublishRaw(pubsub.Spare, []string{"lock", a.topic, "client", a.client, "answer"}, a.payload, false)
}

// inTurn does some of what clients ask when it is the turn of their lock topic. f must not wait.
func (g *gateway) inTurn(f func()) {
	g.turns <- struct{}{}
	defer func() { <-g.turns }()
	f()
}
