package discovery

import (
	"fmt"
	"strings"
	"time"

	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
)

const (
	// maxEndpoints bounds the endpoints of others that are remembered.
	maxEndpoints = 1 << 16
	// maxEndpointsOfOne bounds those of one participant, or it could have all of
	// maxEndpoints: a message that announces one costs no room at the broker.
	maxEndpointsOfOne = 1 << 12
	// sweepPause is the least time between two evictions.
	sweepPause = time.Second
)

// announcementCame handles a message on R/ep/{topic}/{P}/{endpoint}.
func (d *Directory) announcementCame(at string, payload []byte, retained bool) {
	levels, err := level.DecodeTopic(at)
	if err != nil || len(levels) != 4 {
		d.net.Drop(drop.Topic, at, err)
		return
	}
	topic, participant, name := levels[1], levels[2], levels[3]
	if name == question && len(payload) == 0 && !retained {
		d.Asked(participant, topic)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard++
	d.recalls = d.recalls || retained
	if participant == d.ID && retained && d.left(place{topic, name}, payload) {
		// It was not closed, and nobody else may clear it.
		d.retain(place{topic, name}, nil)
		return
	}
	d.learn(participant, topic, name, payload)
	if !retained && len(payload) > 0 {
		d.heardOf(participant)
	}
}

// left reports whether an announcement under our id is of an earlier incarnation, or of
// an endpoint that was closed.
func (d *Directory) left(at place, payload []byte) bool {
	if e, err := Parse(d.ID, at.name, payload); err != nil || e.Incarnation > d.Incarnation {
		return false
	}
	l := d.local[at.name]
	return !d.closed && !d.Unannounced && (l == nil || l.Topic != at.topic)
}

// learn notes what a participant has announced at a place, in any of its topics if topic
// is "". An empty payload withdraws it.
func (d *Directory) learn(participant, topic, name string, payload []byte) {
	if len(payload) == 0 {
		d.withdrawn(participant, func(at place) bool { return at.name == name && (topic == "" || at.topic == topic) })
		return
	}
	e, err := Parse(participant, name, payload)
	if err == nil && e.Topic != topic {
		err = fmt.Errorf("pubsub: endpoint %q of %q is of topic %q", name, participant, e.Topic)
	}
	at := strings.Join([]string{"ep", topic, participant, name}, "/")
	if err != nil {
		d.net.Drop(drop.Malformed, at, err)
		return
	}
	if !d.follows(topic) {
		d.net.Drop(drop.Kind, at, nil)
		return
	}
	p := d.peer(participant)
	defer func() { d.prune(p) }()
	old := p.endpoints[place{topic, name}]
	switch {
	case old == nil:
	case old.GUID != e.GUID:
		d.forget(p, old, false)
	case e.Epoch < old.Epoch, e.Epoch == old.Epoch && e.Change < old.Change: // it was retained until the one that overtook it
		old.connection = d.connection
		return
	}
	if p.endpoints[place{topic, name}] == nil {
		if !d.room(p) {
			d.net.Drop(drop.Backlog, at, nil)
			d.tellFull(p)
			return
		}
		p = d.peer(participant) // it may have been among the dead
		d.size++
	}
	e.connection = d.connection
	e.stays = old != nil && old.GUID == e.GUID && p.counts(old)
	p.endpoints[place{topic, name}] = e
	if p.fate.meets(e) {
		d.update(p.fate.Presence, p.fate.ended)
		return
	}
	if p.awaits(e) && p.watch.calmed() {
		d.doubtAgain(participant, p.watch)
	}
	for _, l := range d.topics[topic] {
		d.judge(p, l, e)
	}
	if p.watch == nil && d.concerns(e) || old != nil && old.Change != e.Change {
		d.reconsider(p)
	}
}

// room reports whether another endpoint of a participant can be remembered; those of the
// dead make room.
func (d *Directory) room(one *peer) bool {
	if d.size >= maxEndpoints && time.Since(d.swept) > sweepPause {
		d.swept = time.Now()
		d.forgetAll(func(p *peer, e *Remote) bool { return !p.counts(e) }, false)
	}
	return d.size < maxEndpoints && len(one.endpoints) < maxEndpointsOfOne
}

// tellFull logs who announces an endpoint for which there is no room or, if there is none for anybody,
// who has announced most. The caller holds mu, and a log may block, so it is not waited for.
func (d *Directory) tellFull(p *peer) {
	limit, most, who := "endpoints-of-a-participant", maxEndpointsOfOne, p.ID
	if len(p.endpoints) < most {
		limit, most, who = "endpoints", maxEndpoints, ""
	}
	if !d.toldFull.May(who, time.Now()) {
		return
	}
	if limit == "endpoints" {
		for _, other := range d.peers {
			if len(other.endpoints) > len(p.endpoints) || len(other.endpoints) == len(p.endpoints) && other.ID < p.ID {
				p = other
			}
		}
	}
	log, from := d.Log, p.ID
	d.net.Start(func() {
		log.Warn("limit reached", "limit", limit, "most", most, "from", from,
			"remedy", "have the participant close writers and readers that it does not need, use instances of one topic in place of many topics, or remove its account")
	})
}

// withdrawn forgets what a participant has closed.
func (d *Directory) withdrawn(participant string, which func(place) bool) {
	p := d.peers[participant]
	if p == nil {
		return
	}
	for at, e := range p.endpoints {
		if which(at) {
			d.forget(p, e, true)
		}
	}
	d.reconsider(p)
}

// forgetAll forgets endpoints of all participants.
func (d *Directory) forgetAll(which func(*peer, *Remote) bool, closed bool) {
	for _, p := range d.peers {
		for _, e := range p.endpoints {
			if which(p, e) {
				d.forget(p, e, closed)
			}
		}
		d.reconsider(p)
	}
}

// forget removes an endpoint that was closed or replaced, or whose participant died.
func (d *Directory) forget(p *peer, e *Remote, closed bool) {
	delete(p.endpoints, place{e.Topic, e.GUID.Endpoint})
	d.size--
	for _, l := range d.topics[e.Topic] {
		if l.seen[e.GUID].matched {
			l.endpoint.Unmatched(e.GUID, !closed)
		}
		delete(l.seen, e.GUID)
	}
}
