package pubsub

import (
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wait"
)

const (
	// maxPeers bounds the participants remembered; further ones are dropped and
	// counted.
	maxPeers = 1 << 16
	// forgetAfter: after a reconnection a broker that lost its memory does not
	// tell who died. Who has not announced itself again by then is dead; it is
	// longer than anybody's back-off and attempt to connect.
	forgetAfter = connection.MaxBackoff + connection.ConnectTimeout
)

// peers follows the presences of those participants with whom something may match, and
// of all once somebody asks for them. The exchange is told of each.
type peers struct {
	p *Participant

	starting wait.Turn // of the one who subscribes
	started  bool

	following atomic.Bool // all of them: started, without waiting

	mu      sync.Mutex
	known   map[string]*peer
	watches map[*presenceWatch]struct{}
	watched map[string]int // those followed one by one, and how often
	changes int            // losses and reconnections so far
}

type peer struct {
	Presence
	confirmed bool // seen on the present connection
}

// A presenceWatch holds, for one reader, whose presence has changed.
type presenceWatch struct {
	changed []string // ids in order of their first unread change
	pending map[string]Presence
	wake    chan struct{}
}

// Peers yields the presence of every participant of the domain, this one
// included: first those that the broker remembers, the dead among them, then
// changes, until ctx or the participant ends. A reader that is slow sees the
// latest presence of each. The error is yielded last, once: why the iteration
// could not begin or go on; nil values never come with it.
func (p *Participant) Peers(ctx context.Context) iter.Seq2[Presence, error] {
	p = p.orEnded()
	return func(yield func(Presence, error) bool) {
		if err := p.peers.start(ctx); err != nil {
			yield(Presence{}, err)
			return
		}
		w := p.peers.watch()
		defer p.peers.unwatch(w)
		for {
			pr, ok := p.peers.next(w)
			if ok {
				if !yield(pr, nil) {
					return
				}
				continue
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			case <-p.ctx.Done():
				yield(Presence{}, p.Err())
				return
			}
		}
	}
}

// start subscribes to all presences; it blocks until that is granted.
func (ps *peers) start(ctx context.Context) error {
	if err := ps.starting.Take(ctx); err != nil {
		return err
	}
	defer ps.starting.Give()
	if ps.started {
		return nil
	}
	ps.following.Store(true)
	_, err := ps.p.subscribe(ctx, ps.p.main, ps.p.root+"/presence/+", ps.receive)
	ps.following.Store(err == nil)
	if ps.started = err == nil; ps.started {
		ps.p.askUnlessTold(ps.p.ask)
	}
	return err
}

func (ps *peers) receive(topic string, payload []byte, retained bool) {
	id, err := DecodeLevel(strings.TrimPrefix(topic, "presence/"))
	if err != nil {
		ps.p.drop(drop.Topic, topic, err)
		return
	}
	if retained && !ps.p.unannounced && id == ps.p.id && ps.p.self.isBirth(payload) { // no other subscription returns it
		ps.p.recalls.Store(true)
	}
	if len(payload) == 0 { // the retained message was cleared
		ps.cleared(id)
		return
	}
	pr, err := parsePresence(id, payload)
	if err != nil {
		ps.p.drop(drop.Malformed, topic, err)
		return
	}
	if !retained && pr.Alive {
		ps.p.exchange.hearsOf(id)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.update(pr)
}

// cleared drops a participant that is dead and will not be heard of again.
func (ps *peers) cleared(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if pr := ps.known[id]; pr != nil && !pr.Alive {
		delete(ps.known, id)
	}
}

// update takes births as they come: the broker keeps their order. A death
// counts only for the birth whose epoch it names, because brokers may publish
// the last will of an old connection after the birth of the next.
func (ps *peers) update(pr Presence) {
	old := ps.known[pr.ID]
	switch {
	case old == nil && len(ps.known) >= maxPeers:
		ps.p.counters.drop(drop.Backlog)
		return
	case old == nil:
		old = &peer{}
	case !pr.Alive && old.Alive && pr.Epoch != old.Epoch:
		return
	case pr.Incarnation == old.Incarnation && pr.Epoch < old.Epoch: // it was retained until the one that overtook it
		return
	case pr.Alive == old.Alive && pr.Epoch == old.Epoch && pr.Incarnation == old.Incarnation:
		old.confirmed = true
		return
	}
	if ps.known == nil {
		ps.known = map[string]*peer{}
	}
	*old = peer{pr, true}
	ps.known[pr.ID] = old
	ps.tell(pr)
}

func (ps *peers) tell(pr Presence) {
	for w := range ps.watches {
		w.add(pr)
	}
	ps.p.exchange.presence(pr)
}

// each has f told every presence that is known.
func (ps *peers) each(f func(*peer)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, pr := range ps.known {
		f(pr)
	}
}

// keep remembers a participant that is followed by itself, until as many calls of let;
// the exchange is told of its presence if that is known already.
func (ps *peers) keep(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.watched == nil {
		ps.watched = map[string]int{}
	}
	ps.watched[id]++
	if pr := ps.known[id]; pr != nil {
		ps.p.exchange.presence(pr.Presence)
	}
}

func (ps *peers) let(id string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.watched[id]--; ps.watched[id] > 0 {
		return
	}
	delete(ps.watched, id)
	if !ps.following.Load() {
		delete(ps.known, id)
	}
}

func (w *presenceWatch) add(pr Presence) {
	if _, waiting := w.pending[pr.ID]; !waiting {
		w.changed = append(w.changed, pr.ID)
	}
	w.pending[pr.ID] = pr
	wait.Signal(w.wake)
}

func (ps *peers) watch() *presenceWatch {
	w := &presenceWatch{pending: map[string]Presence{}, wake: make(chan struct{}, 1)}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.watches == nil {
		ps.watches = map[*presenceWatch]struct{}{}
	}
	ps.watches[w] = struct{}{}
	for _, pr := range ps.known {
		w.add(pr.Presence)
	}
	return w
}

func (ps *peers) unwatch(w *presenceWatch) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.watches, w)
}

func (ps *peers) next(w *presenceWatch) (Presence, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
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

// connecting follows that another connection is made. What an earlier attempt has seen
// does not count: the broker may have forgotten it since.
func (ps *peers) connecting() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, pr := range ps.known {
		pr.confirmed = false
	}
}

// changed follows the connection.
func (ps *peers) changed(up bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.changes++; !up {
		return
	}
	now := ps.changes
	ps.p.start(func() {
		if wait.Sleep(ps.p.ctx, forgetAfter) {
			ps.forget(now)
		}
	})
}

// forget declares dead who has not been confirmed since the change numbered
// change, if that was the last one.
func (ps *peers) forget(change int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if change != ps.changes {
		return
	}
	for _, pr := range ps.known {
		if pr.Alive && !pr.confirmed {
			pr.Alive, pr.Since = false, time.Now()
			ps.tell(pr.Presence)
		}
	}
}
