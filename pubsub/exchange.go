package pubsub

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wait"
	"padme/pubsub/internal/wire"
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

	starting wait.Turn
	data     *connection.Lane
	samples  *connection.Queue // outbox of data
	wake     chan struct{}
	manual   reliable.Assertion // of the writers that are manual by participant
	echoes   echoes
	heard    atomic.Uint64 // announcements and presences so far
	everyone atomic.Bool   // all topics and presences are followed

	mu     sync.Mutex
	closed bool
	count  int
	local  map[string]*localEndpoint            // by name
	topics map[string]map[string]*localEndpoint // by topic and name
	remote map[string]map[place]*endpoint       // by participant
	alive  map[string]Presence                  // by participant, of those followed
	size   int                                  // of remote

	connection int // counts those of the main lane

	swept  time.Time          // when remote was full and the dead were evicted
	follow map[string]*follow // by topic, "" for all
	watch  map[string]*watch  // by participant
	survey map[string]int     // by topic: readers that look who is there before they are
	ended  reliable.Ended     // writers that are closed
}

// place is where a participant announces an endpoint.
type place struct{ topic, name string }

// localEndpoint is a writer or reader of this participant.
type localEndpoint struct {
	x    *exchange
	name string
	json endpointJSON
	qos  QoS    // as it is
	said []byte // json as announced last
	core core
	seen map[wire.GUID]finding // endpoints judged

	events *events
	ended  chan struct{} // closed when the endpoint or its participant has ended
	stop   func()        // ends the following of its topic; x.mu is held
}

// core is a writer's or reader's side of the protocol.
type core interface {
	Tick(now time.Time) (next time.Time)
	Handle(from wire.GUID, m *wire.Repair) bool // false: there is no such message for it
	Matched(reliable.Peer)
	Updated(reliable.Peer)            // it has other policies and still matches
	Unmatched(g wire.GUID, died bool) // it was closed, or its participant died
	Parted(g wire.GUID, ours bool)    // it does not match: any more if we have changed our policies, else maybe never did
	Adapt(reliable.Policies)
}

func (x *exchange) init(p *Participant) {
	x.p = p
	x.starting, x.wake = wait.NewTurn(), make(chan struct{}, 1)
	x.local, x.topics = map[string]*localEndpoint{}, map[string]map[string]*localEndpoint{}
	x.remote, x.alive = map[string]map[place]*endpoint{}, map[string]Presence{}
	x.follow, x.watch, x.survey = map[string]*follow{}, map[string]*watch{}, map[string]int{}
	x.ended = reliable.Ended{}
}

// start opens the data lane. It blocks until that stands or ctx ends.
func (x *exchange) start(ctx context.Context) error {
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	if err := x.starting.Take(ctx); err != nil {
		return err
	}
	defer x.starting.Give()
	p := x.p
	if x.data == nil {
		samples := connection.NewQueue()
		data := p.newLane("data", "~d", samples)
		data.Changed = x.dataChanged
		if !p.start(func() { data.Run(p.ctx, nil) }) || !p.start(x.beat) {
			return cmp.Or(p.Err(), ErrClosed)
		}
		x.mu.Lock()
		x.data, x.samples = data, samples
		x.mu.Unlock()
	}
	_, err := x.data.Online(ctx)
	return err
}

// join makes an endpoint known to others, and others to it. It blocks until what they
// announce is followed, or ctx ends. prefix is "w" or "r".
func (x *exchange) join(ctx context.Context, prefix string, j endpointJSON, q QoS, ev *events, make func(name string) core) (*localEndpoint, error) {
	l, err := x.add(prefix, j, q, ev, make)
	if err != nil {
		return nil, err
	}
	stop, err := x.attend(ctx, j.Topic) // after the announcement, so that it comes back
	if err != nil {
		x.remove(l)
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.local[l.name] != l {
		stop()
		return nil, l.err()
	}
	l.stop = stop
	return l, nil
}

func (x *exchange) add(prefix string, j endpointJSON, q QoS, ev *events, make func(name string) core) (*localEndpoint, error) {
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
	l := &localEndpoint{x: x, name: prefix + strconv.Itoa(x.count), json: j, qos: q, seen: map[wire.GUID]finding{}, events: ev, ended: newChan()}
	l.core = make(l.name)
	x.local[l.name] = l
	if x.topics[j.Topic] == nil {
		x.topics[j.Topic] = map[string]*localEndpoint{}
	}
	x.topics[j.Topic][l.name] = l
	x.announce(l)
	for participant := range x.remote {
		x.judgeAll(participant, l)
		x.reconsider(participant)
	}
	wait.Signal(x.wake)
	if r, ok := l.core.(*reliable.Receiver); ok {
		r.Settle(x.standing(j.Topic))
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
	l.said = payload
	_ = x.p.put(connection.Packet{Topic: x.topic(place{l.json.Topic, l.name}), Payload: payload, Retain: true, QoS: 1})
}

// topic is where this participant announces an endpoint.
func (x *exchange) topic(at place) string {
	level, _ := EncodeLevel(at.topic) // checked by NewTopic
	return x.p.root + "/ep/" + level + "/" + x.p.level + "/" + at.name
}

// announceAll follows a reconnection, which has a new epoch.
func (x *exchange) announceAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.local {
		x.announce(l)
	}
}

// tell tells one participant of the endpoints of a topic, or of all if that is "", as
// they are announced, and of the birth.
func (x *exchange) tell(to, topic string, birth []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := x.topics[topic]
	if topic == "" {
		of = x.local
	}
	a := wire.Announcement{Payload: birth, Topic: topic, Listed: len(of) <= maxEndpointsOfOne, All: map[string]bool{}}
	for name, l := range of {
		if l.said != nil {
			x.p.tell(to, wire.Announcement{Endpoint: name, Payload: l.said, Topic: l.json.Topic})
		}
		if a.Listed {
			a.All[name] = true
		}
	}
	x.p.tell(to, a)
}

// remove ends an endpoint and tells others.
func (x *exchange) remove(l *localEndpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.local[l.name] != l {
		return
	}
	delete(x.local, l.name)
	if delete(x.topics[l.json.Topic], l.name); len(x.topics[l.json.Topic]) == 0 {
		delete(x.topics, l.json.Topic)
	}
	if s, ok := l.core.(*reliable.Sender); ok {
		s.End()
		x.ended.Remember(s)
	}
	_ = x.p.put(connection.Packet{Topic: x.topic(place{l.json.Topic, l.name}), Retain: true, QoS: 1})
	close(l.ended)
	if x.closed { // the connection ends
		return
	}
	x.reconsiderAll()
	if l.stop != nil {
		l.stop()
	}
}

// repair hands a repair letter to the endpoint it is for.
func (x *exchange) repair(from string, e *wire.Envelope) {
	m, err := wire.ParseRepair(e.Body)
	if err != nil {
		x.p.drop(drop.Malformed, "repair from "+from, err)
		return
	}
	g := wire.GUID{Participant: from, Incarnation: e.Epoch, Endpoint: m.From}
	x.mu.Lock()
	l, end := x.local[m.To], x.ended.Answer(g, &m)
	known := l != nil && x.expects(g, l.json.Topic)
	x.hears(from)
	x.mu.Unlock()
	if l == nil || m.Incarnation != x.p.incarnation {
		x.p.counters.drop(drop.Unmatched)
		if m.Incarnation == x.p.incarnation {
			if end != nil {
				x.p.message(from, end.Encode(x.p.incarnation))
			}
			x.p.tell(from, wire.Announcement{Endpoint: m.To}) // it missed that this one was closed
		}
		return
	}
	if !known {
		x.p.askOne(from, l.json.Topic) // it knows us, and we missed its announcement
	}
	if !l.core.Handle(g, &m) {
		x.p.counters.drop(drop.Kind)
	}
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
			next = timing.Earliest(next, c.Tick(now))
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
		if r, ok := l.core.(*reliable.Receiver); !ok || r.Timed() {
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

// err says why the endpoint has ended.
func (l *localEndpoint) err() error {
	if err := l.x.p.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the %s of topic %q", ErrClosed, l.json.Kind, l.json.Topic)
}

// await blocks until what is awaited is there; the channel is closed when that may have
// changed. Errors: why ctx ended, or the endpoint.
func (l *localEndpoint) await(ctx context.Context, there func() (bool, <-chan struct{})) error {
	for {
		ok, change := there()
		if ok {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ended:
			return l.err()
		}
	}
}

// over reports whether the endpoint has ended.
func (l *localEndpoint) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// all yields the endpoint's events.
func (l *localEndpoint) all(ctx context.Context) iter.Seq2[Event, error] {
	return l.events.all(ctx, l.ended, l.err)
}
