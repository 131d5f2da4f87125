package discovery

import (
	"context"
	"iter"
	"strings"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
)

// maxPeers bounds the participants remembered; further ones are dropped and
// counted.
const maxPeers = 1 << 16

// A watcher holds, for one reader of Peers, whose presence has changed.
type watcher struct {
	changed []string // ids in order of their first unread change
	pending map[string]Presence
	wake    chan struct{}
}

// Peers is what package pubsub says of Participant.Peers.
func (d *Directory) Peers(ctx context.Context) iter.Seq2[Presence, error] {
	return func(yield func(Presence, error) bool) {
		if err := d.followPresences(ctx); err != nil {
			yield(Presence{}, err)
			return
		}
		w := d.watch()
		defer d.unwatch(w)
		for {
			if pr, ok := d.next(w); ok {
				if !yield(pr, nil) {
					return
				}
				continue
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			case <-d.Context.Done():
				yield(Presence{}, context.Cause(d.Context))
				return
			}
		}
	}
}

// followPresences subscribes to all presences; it blocks until that is granted.
func (d *Directory) followPresences(ctx context.Context) error {
	if err := d.turn.Take(ctx); err != nil {
		return err
	}
	defer d.turn.Give()
	return d.followEverybody(ctx)
}

// followEverybody is followPresences for who has the turn.
func (d *Directory) followEverybody(ctx context.Context) error {
	if d.swap(&d.following, true) {
		return nil
	}
	if _, err := d.net.Subscribe(ctx, d.Root+"/presence/+", d.presenceCame); err != nil {
		d.swap(&d.following, false)
		return err
	}
	d.askUnlessTold(func() { d.Ask() })
	return nil
}

// swap sets following or everyone, and returns what it was.
func (d *Directory) swap(flag *bool, to bool) (was bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, *flag = *flag, to
	return was
}

// presenceCame handles a message on R/presence/{P}.
func (d *Directory) presenceCame(topic string, payload []byte, retained bool) {
	id, err := level.Decode(strings.TrimPrefix(topic, "presence/"))
	if err != nil {
		d.net.Drop(drop.Topic, topic, err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hear(id, payload, retained)
}

// hears reports whether the presence of a participant is followed.
func (d *Directory) hears(id string) bool {
	p := d.peers[id]
	return d.following || p != nil && p.watch != nil
}

// hear handles a presence.
func (d *Directory) hear(id string, payload []byte, retained bool) {
	if retained && id == d.ID && d.self.isBirth(payload) { // no other subscription returns it
		d.recalls = true
	}
	if !d.hears(id) { // any more
		return
	}
	if len(payload) == 0 { // the retained message was cleared
		if p := d.peers[id]; p != nil && !p.Alive {
			d.unknow(p)
		}
		return
	}
	pr, ended, err := parsePresence(id, payload)
	if err != nil {
		d.net.Drop(drop.Malformed, "presence of "+id, err)
		return
	}
	if !retained && pr.Alive {
		d.heardOf(id)
	}
	d.update(pr, ended)
}

// unknow forgets the presence of a participant.
func (d *Directory) unknow(p *peer) {
	p.Presence, p.known = Presence{ID: p.ID}, false
	d.prune(p)
}

// update takes births as they come: the broker keeps their order. A death
// counts only for the birth whose epoch it names, because brokers may publish
// the last will of an old connection after the birth of the next. Two births of one
// incarnation, without a death, are one life: see again.go.
func (d *Directory) update(pr Presence, ended map[string]uint64) {
	p := d.peers[pr.ID]
	switch {
	case p == nil && len(d.peers) >= maxPeers:
		d.net.Drop(drop.Backlog, "presence of "+pr.ID, nil)
		return
	case p == nil:
		p = d.peer(pr.ID)
	case !p.known:
	case pr.Incarnation == p.Incarnation && pr.Epoch < p.Epoch: // it was retained until the one that overtook it
		return
	case !pr.Alive && p.Alive && pr.Epoch != p.Epoch && p.unborn(&pr, ended):
		return
	case pr.Alive == p.Alive && pr.Epoch == p.Epoch && pr.Incarnation == p.Incarnation:
		p.connection = d.connection
		return
	}
	again := p.stay(&pr)
	p.Presence, p.known, p.connection, p.fate = pr, true, d.connection, nil
	if !p.Alive {
		d.endedBefore(p, ended)
	}
	d.changed(p)
	if again && p.watch != nil {
		d.doubtAgain(p.ID, p.watch)
	}
}

// changed follows a birth or death. What a participant announced that is dead is
// forgotten, unless everything is followed: it announces it again when it is back.
func (d *Directory) changed(p *peer) {
	d.heard++
	for w := range d.watchers {
		w.add(p.Presence)
	}
	if !p.Alive && !d.everyone {
		for _, e := range p.endpoints {
			if e.Epoch <= p.Epoch {
				d.forget(p, e, false)
			}
		}
	}
	d.judgeAll(p, nil)
	d.reconsider(p)
}

// endedBefore tells our endpoints which writers a dead participant had closed, and when.
func (d *Directory) endedBefore(p *peer, ended map[string]uint64) {
	for _, e := range p.endpoints {
		last, named := ended[e.GUID.Endpoint]
		if !named || e.GUID.Incarnation != p.Incarnation {
			continue
		}
		for _, l := range d.topics[e.Topic] {
			if l.seen[e.GUID].matched {
				l.endpoint.EndedBefore(e.GUID, last)
			}
		}
	}
}

// presume takes a participant for dead.
func (d *Directory) presume(p *peer) {
	if p.known && p.Alive {
		p.Alive, p.Since = false, time.Now()
		d.changed(p)
	}
}

func (w *watcher) add(pr Presence) {
	if _, waiting := w.pending[pr.ID]; !waiting {
		w.changed = append(w.changed, pr.ID)
	}
	w.pending[pr.ID] = pr
	wait.Signal(w.wake)
}

func (d *Directory) watch() *watcher {
	w := &watcher{pending: map[string]Presence{}, wake: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watchers[w] = struct{}{}
	for _, p := range d.peers {
		if p.known {
			w.add(p.Presence)
		}
	}
	return w
}

func (d *Directory) unwatch(w *watcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watchers, w)
}

func (d *Directory) next(w *watcher) (Presence, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(w.changed) == 0 {
		w.changed = nil
		return Presence{}, false
	}
	id := w.changed[0]
	w.changed = w.changed[1:]
	pr := w.pending[id]
	delete(w.pending, id)
	return pr, true
}
