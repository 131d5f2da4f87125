package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wire"
)

// A Local is a writer or reader of this participant, as it is announced.
type Local struct {
	Name         string
	Announcement // but for Kind and Topic guarded by the directory's mutex

	d        *Directory
	said     []byte // the announcement, as published last
	endpoint Endpoint
	seen     map[wire.GUID]finding // endpoints judged
	stop     func()                // ends the following of its topic
}

// Join makes an endpoint known to others, and others to it. It blocks until what they
// announce is followed, or ctx ends. The name begins with prefix. made is called with a
// mutex held and must not block.
func (d *Directory) Join(ctx context.Context, prefix string, a Announcement, made func(*Local) Endpoint) (*Local, error) {
	l, err := d.add(prefix, a, made)
	if err != nil {
		return nil, err
	}
	stop, err := d.attend(ctx, a.Topic) // after the announcement, so that it comes back
	if err != nil {
		d.Remove(l)
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.local[l.Name] != l {
		stop()
		return nil, l.Err()
	}
	l.stop = stop
	return l, nil
}

func (d *Directory) add(prefix string, a Announcement, made func(*Local) Endpoint) (*Local, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.Context.Err() != nil {
		return nil, failure.ErrClosed
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	d.count++
	l := &Local{d: d, Name: prefix + strconv.Itoa(d.count), Announcement: a, seen: map[wire.GUID]finding{}}
	l.endpoint = made(l)
	d.local[l.Name] = l
	if d.topics[l.Topic] == nil {
		d.topics[l.Topic] = map[string]*Local{}
	}
	d.topics[l.Topic][l.Name] = l
	d.announce(l)
	d.meetAll(l)
	return l, nil
}

// meetAll looks at everybody for one endpoint of ours.
func (d *Directory) meetAll(l *Local) {
	for _, p := range d.peers {
		d.judgeAll(p, l)
		d.reconsider(p)
	}
	d.settle(l)
}

func (d *Directory) settle(l *Local) {
	l.endpoint.Settle(func(g wire.GUID) bool { return d.alive(l.Topic, g) })
}

// Settle has an endpoint be told again who lives.
func (d *Directory) Settle(l *Local) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle(l)
}

// announce publishes an endpoint; offline that is done after the reconnection.
func (d *Directory) announce(l *Local) {
	l.Incarnation, l.Epoch = d.Incarnation, d.self.epoch()
	payload, err := json.Marshal(&l.Announcement)
	if err != nil {
		d.Log.Error("endpoint cannot be announced", "endpoint", l.Name, "error", err)
		return
	}
	l.said = payload
	d.retain(place{l.Topic, l.Name}, payload)
}

// retain has the broker keep what this participant announces at a place; nil: nothing.
func (d *Directory) retain(at place, payload []byte) {
	_ = d.net.Put(connection.Packet{Topic: d.below(at), Payload: payload, Retain: true, QoS: 1})
}

// below is where this participant announces an endpoint.
func (d *Directory) below(at place) string {
	topic, _ := level.Encode(at.topic) // it was checked
	return d.Root + "/ep/" + topic + "/" + d.Level + "/" + at.name
}

// announceAll follows a birth, which has an epoch of its own.
func (d *Directory) announceAll() {
	for _, l := range d.local {
		d.announce(l)
	}
}

// Change gives an endpoint other policies; instance and bundles stay. apply is called once
// they are found to fit into an announcement, with how often l has changed them, with a mutex
// held, and must not block.
func (d *Directory) Change(l *Local, to Offer, apply func(change uint64)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.local[l.Name] != l {
		return l.Err()
	}
	a := l.Announcement
	to.Instance, to.Bundles = a.QoS.Instance, a.QoS.Bundles
	a.QoS = to
	a.Change++
	a.Incarnation, a.Epoch = 0, 0 // as check expects
	if err := a.check(); err != nil {
		return err
	}
	l.QoS, l.Change = a.QoS, a.Change // the rest is read without the mutex
	apply(a.Change)
	d.rematch(l)
	return nil
}

// rematch follows a change of l. Peers hear who has no part in it any more before they
// hear of the change, and who has come to match after it.
func (d *Directory) rematch(l *Local) {
	for g, was := range l.seen {
		was.of = nil
		l.seen[g] = was
		if e := d.find(l.Topic, g); e != nil && was.matched && !l.compare(e).matched {
			d.judge(d.peers[g.Participant], l, e)
		}
	}
	d.announce(l)
	d.meetAll(l)
}

// Remove ends an endpoint and tells others. One that has ended stays as it is.
func (d *Directory) Remove(l *Local) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.local[l.Name] != l {
		return
	}
	delete(d.local, l.Name)
	if delete(d.topics[l.Topic], l.Name); len(d.topics[l.Topic]) == 0 {
		delete(d.topics, l.Topic)
	}
	l.endpoint.End()
	d.retain(place{l.Topic, l.Name}, nil)
	if d.closed { // the connection ends
		return
	}
	d.reconsiderAll()
	if l.stop != nil {
		l.stop()
	}
}

// Close has nothing be added from then on.
func (d *Directory) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// End is Close, and forgets the endpoints of this participant without telling anybody.
func (d *Directory) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	clear(d.local)
	clear(d.topics)
}

// Err says why an endpoint has ended.
func (l *Local) Err() error {
	return cmp.Or(context.Cause(l.d.Context), fmt.Errorf("%w: the %s of topic %q", failure.ErrClosed, l.Kind, l.Topic))
}
