package pubsub

import (
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPeers bounds the participants remembered; further ones are dropped and
	// counted.
	maxPeers = 1 << 16
	// forgetAfter: after a reconnection a broker that lost its memory does not
	// tell who died. Who has not announced itself again by then is dead; it is
	// longer than anybody's back-off and attempt to connect.
	forgetAfter = maxBackoff + connectTimeout
)

// peers follows the presences of all participants, once somebody asks for them.
type peers struct {
	p *Participant

	starting sync.Mutex // held by the one who subscribes
	started  bool

	following atomic.Bool // started, without waiting

	mu      sync.Mutex
	known   map[string]*peer
	watches map[*presenceWatch]struct{}
	follow  func(Presence) // told at once, must not block; nil for none
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
	ps.starting.Lock()
	defer ps.starting.Unlock()
	if ps.started {
		return nil
	}
	_, err := ps.p.subscribe(ctx, ps.p.main, ps.p.root+"/presence/+", ps.receive)
	if ps.started = err == nil; ps.started {
		ps.following.Store(true)
		ps.p.ask()
	}
	return err
}

func (ps *peers) receive(topic string, payload []byte, _ bool) {
	id, err := DecodeLevel(strings.TrimPrefix(topic, "presence/"))
	if err != nil {
		ps.p.drop(dropTopic, topic, err)
		return
	}
	if len(payload) == 0 { // the retained message was cleared
		ps.cleared(id)
		return
	}
	pr, err := parsePresence(id, payload)
	if err != nil {
		ps.p.drop(dropMalformed, topic, err)
		return
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
		ps.p.counters.drop(dropBacklog)
		return
	case old == nil:
		old = &peer{}
	case !pr.Alive && old.Alive && pr.Epoch != old.Epoch:
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
	if ps.follow != nil {
		ps.follow(pr)
	}
}

// followAll has f told every presence, those already known first.
func (ps *peers) followAll(ctx context.Context, f func(Presence)) error {
	if err := ps.start(ctx); err != nil {
		return err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.follow = f
	for _, pr := range ps.known {
		f(pr.Presence)
	}
	return nil
}

func (w *presenceWatch) add(pr Presence) {
	if _, waiting := w.pending[pr.ID]; !waiting {
		w.changed = append(w.changed, pr.ID)
	}
	w.pending[pr.ID] = pr
	signal(w.wake)
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

// changed follows the connection.
func (ps *peers) changed(up bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.changes++
	if !up {
		for _, pr := range ps.known {
			pr.confirmed = false
		}
		return
	}
	now := ps.changes
	ps.p.start(func() {
		if sleep(ps.p.ctx, forgetAfter) {
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
