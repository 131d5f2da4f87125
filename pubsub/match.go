package pubsub

import (
	"fmt"
	"strings"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wait"
	"padme/pubsub/internal/wire"
)

// sweepPause is the least time between two evictions.
const sweepPause = time.Second

// announced handles a message on R/ep/{topic}/{P}/{endpoint}.
func (x *exchange) announced(at string, payload []byte, retained bool) {
	x.heard.Add(1)
	if retained {
		x.p.recalls.Store(true)
	}
	levels, err := level.DecodeTopic(at)
	if err != nil || len(levels) != 4 {
		x.p.drop(drop.Topic, at, err)
		return
	}
	topic, participant, name := levels[1], levels[2], levels[3]
	switch {
	case name == question && len(payload) == 0 && !retained:
		x.p.asked(participant, topic)
	case participant == x.p.id && retained && x.left(place{topic, name}, payload):
		// It was not closed, and nobody else may clear it.
		_ = x.p.put(connection.Packet{Topic: x.topic(place{topic, name}), Retain: true, QoS: 1})
	default:
		x.learn(participant, topic, name, payload)
		if !retained && len(payload) > 0 {
			x.hearsOf(participant)
		}
	}
}

// left reports whether an announcement under our id is of an earlier incarnation, or of
// an endpoint that was closed.
func (x *exchange) left(at place, payload []byte) bool {
	if e, err := parseEndpoint(x.p.id, at.name, payload); err != nil || e.Incarnation > x.p.incarnation {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.local[at.name]
	return !x.closed && !x.p.unannounced && (l == nil || l.json.Topic != at.topic)
}

// learn notes what a participant has announced at a place, in any of its topics if topic
// is "". An empty payload withdraws it.
func (x *exchange) learn(participant, topic, name string, payload []byte) {
	if len(payload) == 0 {
		x.withdrawn(participant, topic, name)
		return
	}
	e, err := parseEndpoint(participant, name, payload)
	if err == nil && e.Topic != topic {
		err = fmt.Errorf("pubsub: endpoint %q of %q is of topic %q", name, participant, e.Topic)
	}
	if err != nil {
		x.p.drop(drop.Malformed, strings.Join([]string{"ep", topic, participant, name}, "/"), err)
		return
	}
	at := place{topic, name}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.follows(topic) {
		x.p.counters.drop(drop.Kind)
		return
	}
	old := x.remote[participant][at]
	switch {
	case old == nil:
	case old.guid != e.guid:
		x.forget(old, false)
	case e.epoch < old.epoch, e.epoch == old.epoch && e.Change < old.Change: // it was retained until the one that overtook it
		old.connection = x.connection
		return
	}
	if x.remote[participant][at] == nil {
		if !x.room(participant) {
			x.p.counters.drop(drop.Backlog)
			return
		}
		x.size++
	}
	if x.remote[participant] == nil {
		x.remote[participant] = map[place]*endpoint{}
	}
	e.connection = x.connection
	x.remote[participant][at] = &e
	for _, l := range x.topics[topic] {
		x.judge(l, &e)
	}
	if x.watch[participant] == nil && x.concerns(&e) || old != nil && old.Change != e.Change {
		x.reconsider(participant)
	}
}

// room reports whether another endpoint of a participant can be remembered; those of the
// dead make room.
func (x *exchange) room(participant string) bool {
	if x.size >= maxEndpoints && time.Since(x.swept) > sweepPause {
		x.swept = time.Now()
		for p, of := range x.remote {
			for _, e := range of {
				if !x.alive[p].counts(e) {
					x.forget(e, false)
				}
			}
			x.reconsider(p)
		}
	}
	return x.size < maxEndpoints && len(x.remote[participant]) < maxEndpointsOfOne
}

func (x *exchange) withdrawn(participant, topic, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, e := range x.remote[participant] {
		if at.name == name && (topic == "" || at.topic == topic) {
			x.forget(e, true)
		}
	}
	x.reconsider(participant)
}

// forget removes an endpoint that was closed or replaced, or whose participant died.
func (x *exchange) forget(e *endpoint, closed bool) {
	of := x.remote[e.guid.Participant]
	if delete(of, place{e.Topic, e.guid.Endpoint}); len(of) == 0 {
		delete(x.remote, e.guid.Participant)
	}
	x.size--
	for _, l := range x.topics[e.Topic] {
		if l.seen[e.guid].matched {
			l.core.Unmatched(e.guid, !closed)
			wait.Signal(x.wake)
		}
		delete(l.seen, e.guid)
	}
}

// closedBut forgets endpoints of a participant that has named all which it has in a
// topic, or in all if that is "".
func (x *exchange) closedBut(participant string, incarnation uint64, topic string, all map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, e := range x.remote[participant] {
		if e.guid.Incarnation == incarnation && (topic == "" || at.topic == topic) && !all[at.name] {
			x.forget(e, true)
		}
	}
	x.reconsider(participant)
}

// presence follows births and deaths. What a participant announced that is dead is
// forgotten, unless everything is followed: it announces it again when it is back.
func (x *exchange) presence(pr Presence) {
	x.heard.Add(1)
	everyone := x.everyone.Load()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !everyone && x.watch[pr.ID] == nil {
		return
	}
	if pr.Alive {
		x.alive[pr.ID] = pr
	} else {
		delete(x.alive, pr.ID)
	}
	if !pr.Alive && !everyone {
		for _, e := range x.remote[pr.ID] {
			if e.epoch <= pr.Epoch {
				x.forget(e, false)
			}
		}
	}
	x.judgeAll(pr.ID, nil)
	x.reconsider(pr.ID)
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

// finding is what was found about two endpoints.
type finding struct {
	matched bool
	why     Event     // not; nil if it is nobody's business
	of      *endpoint // as it was announced then; nil if our own QoS has changed since
}

// find decides whether l and e match.
func (l *localEndpoint) find(e *endpoint) finding {
	if !l.json.QoS.Partition.Meets(e.QoS.Partition) {
		return finding{of: e} // they are none of each other's business
	}
	why := match(l.json, e.endpointJSON, e.guid)
	return finding{why == nil, why, e}
}

// judge follows what there is between l and e.
func (x *exchange) judge(l *localEndpoint, e *endpoint) {
	if l.json.Kind == e.Kind {
		return
	}
	was, judged := l.seen[e.guid]
	switch counts := x.alive[e.guid.Participant].counts(e); {
	case counts && was.of != e:
		x.rejudge(l, e, was)
	case !counts && judged:
		delete(l.seen, e.guid)
		if was.matched {
			l.core.Unmatched(e.guid, true)
			wait.Signal(x.wake)
		}
	case !counts && e.Change > 0 && !l.find(e).matched:
		l.core.Parted(e.guid, false) // it has changed while it was away
	}
}

// rejudge follows that one of the two has come or has changed.
func (x *exchange) rejudge(l *localEndpoint, e *endpoint, was finding) {
	is := l.find(e)
	l.seen[e.guid] = is
	switch {
	case is.matched && was.matched:
		l.core.Updated(e.peer(l))
	case is.matched:
		l.core.Matched(e.peer(l))
	default:
		l.core.Parted(e.guid, was.matched && was.of == nil)
	}
	if is.matched != was.matched {
		wait.Signal(x.wake)
	}
	if is.why != nil && is.why != was.why {
		l.events.add(is.why)
	}
}

// remoteEndpoint returns an endpoint of a topic by its name, nil if it is not known.
func (x *exchange) remoteEndpoint(topic string, g wire.GUID) *endpoint {
	if e := x.remote[g.Participant][place{topic, g.Endpoint}]; e != nil && e.guid == g {
		return e
	}
	return nil
}

// expects reports whether an endpoint of a topic is known and alive, or is about to be.
func (x *exchange) expects(g wire.GUID, topic string) bool {
	e, w := x.remoteEndpoint(topic, g), x.watch[g.Participant]
	return e != nil && (x.alive[g.Participant].counts(e) || w != nil && !w.settled)
}
