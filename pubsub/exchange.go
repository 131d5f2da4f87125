package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxEndpoints bounds the endpoints of others that are remembered.
	maxEndpoints = 1 << 16
	// maxEndpointsOfOne bounds those of one participant, or it could have all of
	// maxEndpoints: a letter that announces one costs no room at the broker.
	maxEndpointsOfOne = 1 << 12
)

// exchange brings the writers and readers of a participant together with those
// of others. Samples have a connection of their own: a stalled reader may hold
// up its writers at the broker, but not their inboxes.
type exchange struct {
	p *Participant

	starting sync.Mutex
	started  bool
	data     *lane
	samples  *fifo // outbox of data
	wake     chan struct{}
	manual   assertion // of the writers that are manual by participant
	echoes   echoes

	mu     sync.Mutex
	closed bool
	count  int
	local  map[string]*localEndpoint            // by name
	topics map[string]map[string]*localEndpoint // by topic and name
	remote map[string]map[string]*endpoint      // by participant and name
	alive  map[string]Presence                  // by participant
	size   int                                  // of remote
}

// localEndpoint is a writer or reader of this participant.
type localEndpoint struct {
	name string
	json endpointJSON
	core core
	seen map[GUID]bool // endpoints judged: true if matched

	events *events
	ended  chan struct{} // closed when the endpoint or its participant has ended
}

// core is a sender or receiver.
type core interface {
	tick(now time.Time) (next time.Time)
	matched(endpoint)
	unmatched(g GUID, died bool)
}

func (x *exchange) init(p *Participant) {
	x.p = p
	x.wake = make(chan struct{}, 1)
	x.local, x.topics = map[string]*localEndpoint{}, map[string]map[string]*localEndpoint{}
	x.remote, x.alive = map[string]map[string]*endpoint{}, map[string]Presence{}
}

// start opens the data lane and follows the announcements of others. It blocks
// until both stand or ctx ends.
func (x *exchange) start(ctx context.Context) error {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	x.starting.Lock()
	defer x.starting.Unlock()
	p := x.p
	if x.data == nil {
		samples := newFIFO()
		data := &lane{
			name:    "data",
			out:     samples,
			changed: x.dataChanged,
			failed:  func(err error) { p.log.Info("connecting the data lane failed", "error", err) },
			dropped: func(n int) { p.counters.dropped[dropDisconnect].Add(uint64(n)) },
		}
		data.establish = func(ctx context.Context) (*link, error) {
			k, err := p.connectLane(ctx, "~d", packet{}, func(topic string, payload []byte, retained bool) {
				if below, ok := strings.CutPrefix(topic, p.root+"/"); ok {
					data.routes.dispatch(below, payload, retained)
				}
			})
			if err != nil {
				return nil, err
			}
			if err := data.resubscribe(ctx, k); err != nil {
				k.close(politeness)
				return nil, err
			}
			return k, nil
		}
		if !p.start(func() { data.run(p.ctx, nil) }) || !p.start(x.beat) {
			return ErrClosed
		}
		x.mu.Lock()
		x.data, x.samples = data, samples
		x.mu.Unlock()
	}
	if _, err := x.data.online(ctx); err != nil {
		return err
	}
	if x.started {
		return nil
	}
	if _, err := p.subscribe(ctx, p.main, p.root+"/ep/+/+", x.announced); err != nil {
		return err
	}
	asked := p.peers.following.Load() // by somebody who did not hear of endpoints
	if err := p.peers.followAll(ctx, x.presence); err != nil {
		return err
	}
	if asked {
		p.ask()
	}
	x.started = true
	return nil
}

// add makes an endpoint known to others. prefix is "w" or "r".
func (x *exchange) add(prefix string, j endpointJSON, ev *events, make func(name string) core) (*localEndpoint, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.p.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if payload, err := json.Marshal(j); err != nil {
		return nil, err
	} else if err := checkAnnouncement(len(payload) + 2*maxDigits); err != nil { // it gets two numbers more
		return nil, err
	}
	x.count++
	l := &localEndpoint{name: prefix + strconv.Itoa(x.count), json: j, seen: map[GUID]bool{}, events: ev, ended: newChan()}
	l.core = make(l.name)
	x.local[l.name] = l
	if x.topics[j.Topic] == nil {
		x.topics[j.Topic] = map[string]*localEndpoint{}
	}
	x.topics[j.Topic][l.name] = l
	x.announce(l)
	for participant := range x.remote {
		x.judgeAll(participant, l)
	}
	signal(x.wake)
	if r, ok := l.core.(*receiver); ok {
		r.settle(x.standing)
	}
	return l, nil
}

func newChan() chan struct{} { return make(chan struct{}) }

// announce publishes an endpoint; offline that is done after the reconnection.
func (x *exchange) announce(l *localEndpoint) {
	l.json.Incarnation, l.json.Epoch = x.p.incarnation, x.p.self.epoch()
	payload, err := json.Marshal(l.json)
	if err != nil {
		x.p.log.Error("endpoint cannot be announced", "endpoint", l.name, "error", err)
		return
	}
	_ = x.p.put(packet{topic: x.topic(l), payload: payload, retain: true, qos: 1})
}

func (x *exchange) topic(l *localEndpoint) string {
	return x.p.root + "/ep/" + x.p.level + "/" + l.name
}

// announceAll follows a reconnection, which has a new epoch.
func (x *exchange) announceAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.local {
		x.announce(l)
	}
}

// tellAll tells one participant of all endpoints, as they are announced, after the
// birth.
func (x *exchange) tellAll(to string, birth []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := announcement{payload: birth, listed: len(x.local) <= maxEndpointsOfOne}
	if a.listed {
		a.all = map[string]bool{}
		for name := range x.local {
			a.all[name] = true
		}
	}
	x.p.tell(to, a)
	for _, l := range x.local {
		if payload, err := json.Marshal(l.json); err == nil {
			x.p.tell(to, announcement{endpoint: l.name, payload: payload})
		}
	}
}

// remove ends an endpoint and tells others.
func (x *exchange) remove(l *localEndpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.local[l.name] != l {
		return
	}
	delete(x.local, l.name)
	delete(x.topics[l.json.Topic], l.name)
	_ = x.p.put(packet{topic: x.topic(l), retain: true, qos: 1})
	close(l.ended)
}

// leave ends all endpoints after what they have written is with the broker.
func (x *exchange) leave(ctx context.Context) {
	x.mu.Lock()
	x.closed = true
	data := x.data
	var all []*localEndpoint
	for _, l := range x.local {
		all = append(all, l)
	}
	x.mu.Unlock()
	if data != nil {
		_ = data.flush(ctx)
	}
	for _, l := range all {
		x.remove(l)
	}
}

// announced handles a message on R/ep/{P}/{endpoint}.
func (x *exchange) announced(topic string, payload []byte, _ bool) {
	levels := strings.Split(topic, "/")
	participant, err := DecodeLevel(levels[1])
	if err != nil {
		x.p.drop(dropTopic, topic, err)
		return
	}
	name := levels[2]
	if _, err := DecodeLevel(name); err != nil {
		x.p.drop(dropTopic, topic, err)
		return
	}
	var e endpoint
	if len(payload) > 0 {
		if e, err = parseEndpoint(participant, name, payload); err != nil {
			x.p.drop(dropMalformed, topic, err)
			return
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.remote[participant][name]
	if old != nil && (len(payload) == 0 || old.guid != e.guid) {
		x.forget(old, len(payload) == 0)
	}
	if len(payload) == 0 {
		return
	}
	if x.remote[participant][name] == nil {
		if x.size >= maxEndpoints || len(x.remote[participant]) >= maxEndpointsOfOne {
			x.p.counters.drop(dropBacklog)
			return
		}
		x.size++
	}
	if x.remote[participant] == nil {
		x.remote[participant] = map[string]*endpoint{}
	}
	x.remote[participant][name] = &e
	for _, l := range x.topics[e.Topic] {
		x.judge(l, &e)
	}
}

// forget removes an endpoint that was closed or replaced.
func (x *exchange) forget(e *endpoint, closed bool) {
	delete(x.remote[e.guid.Participant], e.guid.Endpoint)
	if len(x.remote[e.guid.Participant]) == 0 {
		delete(x.remote, e.guid.Participant)
	}
	x.size--
	for _, l := range x.topics[e.Topic] {
		if matched := l.seen[e.guid]; matched {
			l.core.unmatched(e.guid, !closed)
			signal(x.wake)
		}
		delete(l.seen, e.guid)
	}
}

// closedBut forgets endpoints of a participant that has named all which it has.
func (x *exchange) closedBut(participant string, incarnation uint64, all map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, e := range x.remote[participant] {
		if e.guid.Incarnation == incarnation && !all[name] {
			x.forget(e, true)
		}
	}
}

// presence follows births and deaths.
func (x *exchange) presence(pr Presence) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if pr.Alive {
		x.alive[pr.ID] = pr
	} else {
		delete(x.alive, pr.ID)
	}
	x.judgeAll(pr.ID, nil)
}

// judgeAll looks again at the endpoints of a participant, for one or all of our
// own.
func (x *exchange) judgeAll(participant string, only *localEndpoint) {
	for _, e := range x.remote[participant] {
		for _, l := range x.topics[e.Topic] {
			if only == nil || l == only {
				x.judge(l, e)
			}
		}
	}
}

// judge decides whether l and e match.
func (x *exchange) judge(l *localEndpoint, e *endpoint) {
	if l.json.Kind == e.Kind {
		return
	}
	counts := x.alive[e.guid.Participant].counts(e)
	matched, judged := l.seen[e.guid]
	switch {
	case counts && !judged && !l.json.QoS.Partition.meets(e.QoS.Partition):
		l.seen[e.guid] = false // they are none of each other's business
	case counts && !judged:
		why := match(l.json, e.endpointJSON, e.guid)
		l.seen[e.guid] = why == nil
		if why == nil {
			l.core.matched(*e)
			signal(x.wake)
		} else {
			l.events.add(why)
		}
	case counts && matched:
		l.refresh(e)
	case !counts && judged:
		delete(l.seen, e.guid)
		if matched {
			l.core.unmatched(e.guid, true)
			signal(x.wake)
		}
	}
}

// repair hands a repair letter to the endpoint it is for.
func (x *exchange) repair(from string, e *envelope) {
	m, err := parseRepair(e.body)
	if err != nil {
		x.p.drop(dropMalformed, "repair from "+from, err)
		return
	}
	g := GUID{from, e.epoch, m.from}
	x.mu.Lock()
	l, peer, pr := x.local[m.to], x.remote[from][m.from], x.alive[from]
	x.mu.Unlock()
	if l == nil || m.incarnation != x.p.incarnation {
		x.p.counters.drop(dropUnmatched)
		if m.incarnation == x.p.incarnation {
			x.p.tell(from, announcement{endpoint: m.to}) // it missed that this one was closed
		}
		return
	}
	if peer == nil || peer.guid != g || !pr.counts(peer) {
		x.p.askOne(from) // it knows us, and we missed its announcement
	}
	switch c := l.core.(type) {
	case *sender:
		if m.op == opAck {
			c.acknowledged(g, &m)
			signal(x.wake)
			return
		}
	case *receiver:
		switch m.op {
		case opHeartbeat:
			c.heartbeat(g, &m)
			return
		case opGap:
			c.gap(g, &m)
			return
		case opAlive:
			c.alive(g, &m)
			return
		case opSample:
			if key, err := DecodeLevel(m.key); err == nil {
				c.repaired(key, writerLevels(g), m.sample)
				return
			}
		}
	}
	x.p.counters.drop(dropKind)
}

// beat sends heartbeats while something is unacknowledged, and does what the
// policies of time make due.
func (x *exchange) beat() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-x.wake:
		case <-timer.C:
		case <-x.p.ctx.Done():
			x.endAll()
			return
		}
		var next time.Time
		now := time.Now()
		for _, c := range x.cores() {
			next = earliest(next, c.tick(now))
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(time.Until(next), time.Millisecond))
		}
	}
}

// cores returns those that may have something to do: every writer, and readers
// with something due.
func (x *exchange) cores() (all []core) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.local {
		if r, ok := l.core.(*receiver); !ok || r.timed.Load() {
			all = append(all, l.core)
		}
	}
	return all
}

// endAll ends what is left when the participant does.
func (x *exchange) endAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	for _, l := range x.local {
		close(l.ended)
	}
	clear(x.local)
	clear(x.topics)
}

// post sends a repair letter; what is lost is repeated.
func (x *exchange) post(to string, letter []byte) {
	if topic, err := x.p.inboxTopic(to); err == nil {
		_ = x.p.put(packet{topic: topic, payload: letter, qos: 1})
	}
}

// err says why an endpoint has ended.
func (x *exchange) err(what, topic string) error {
	if err := x.p.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the %s of topic %q", ErrClosed, what, topic)
}
