package pubsub

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/timing"
	"padme/pubsub/internal/wire"
)

// exchange has the writers and readers of a participant. Samples have a connection of
// their own: a stalled reader may hold up its writers at the broker, but not their inboxes.
type exchange struct {
	p *Participant

	starting wait.Turn
	data     *connection.Lane
	samples  *connection.Queue // outbox of data
	wake     chan struct{}
	manual   reliable.Assertion // of the writers that are manual by participant
	ended    reliable.Ended     // writers that are closed
	echoes   echoes
	earlier  earlier

	mu    sync.Mutex                // nothing else is taken while it is held
	local map[string]*localEndpoint // by name
}

func (x *exchange) init(p *Participant) {
	x.p = p
	x.starting, x.wake = wait.NewTurn(), make(chan struct{}, 1)
	x.earlier = newEarlier()
	x.local = map[string]*localEndpoint{}
}

// start opens the data lane. It blocks until that stands or ctx ends.
func (x *exchange) start(ctx context.Context) error {
	if ctx.Err() != nil && x.p.Err() == nil { // the network has no part in that
		return whyEnded(ctx)
	}
	ctx, cancel := x.p.while(ctx)
	defer cancel()
	if err := x.starting.Take(ctx); err != nil {
		return err
	}
	defer x.starting.Give()
	p := x.p
	if x.data == nil {
		samples := connection.NewQueue()
		data := p.newLane("data", "~d", p.root+"/", samples)
		data.Changed = x.dataChanged
		if !p.start(func() { data.Run(p.ctx, nil) }) || !p.start(x.beat) {
			return cmp.Or(p.Err(), ErrClosed)
		}
		x.mu.Lock()
		x.data, x.samples = data, samples
		x.mu.Unlock()
	}
	if _, err := x.data.Online(ctx); err != nil && p.Err() == nil {
		return fmt.Errorf("no connection to %s yet: %w", p.label, err)
	}
	return p.Err()
}

// outage names it as the reason why ctx ended with err while lane was awaited.
func (p *Participant) outage(ctx context.Context, lane *connection.Lane, err error) error {
	if err == nil || ctx.Err() == nil || p.Err() != nil {
		return err
	}
	if k, _ := lane.Current(); k == nil {
		return fmt.Errorf("no connection to %s: %w", p.label, err)
	}
	return err
}

// join makes an endpoint known to others, and others to it. It blocks until what they
// announce is followed, or ctx ends. prefix is "w" or "r".
func (x *exchange) join(ctx context.Context, prefix string, a discovery.Announcement, q QoS, ev *events, made func(name string) core) (*localEndpoint, error) {
	l := &localEndpoint{x: x, events: ev, ended: make(chan struct{})}
	l.qos.Store(&q)
	_, err := x.p.directory.Join(ctx, prefix, a, func(as *discovery.Local) discovery.Endpoint {
		l.Local, l.core = as, made(as.Name)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.local[l.Name] = l
		return l
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// drop ends an endpoint here.
func (x *exchange) drop(l *localEndpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.local[l.Name] == l {
		delete(x.local, l.Name)
		close(l.ended)
	}
}

func (x *exchange) find(name string) *localEndpoint {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.local[name]
}

// endpoints are those that have not ended, by name.
func (x *exchange) endpoints() []*localEndpoint {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.local), func(a, b *localEndpoint) int { return strings.Compare(a.Name, b.Name) })
}

// repair hands a repair message to the endpoint it is for.
func (x *exchange) repair(from string, e *wire.Envelope) {
	m, err := wire.ParseRepair(e.Body)
	if err != nil {
		x.p.drop(drop.Malformed, "repair from "+from, err)
		return
	}
	g := wire.GUID{Participant: from, Incarnation: e.Epoch, Endpoint: m.From}
	l, ours := x.find(m.To), m.Incarnation == x.p.incarnation
	if l == nil || !ours {
		x.p.directory.Heard(g, "")
		x.p.counters.drop(drop.Unmatched)
		if ours { // it missed that this one was closed
			if end := x.ended.Answer(g, &m); end != nil {
				x.p.message(from, end.Encode(x.p.incarnation))
			}
			closed := wire.Announcement{Endpoint: m.To}
			x.p.message(from, closed.Encode(x.p.incarnation))
		}
		return
	}
	x.p.directory.Heard(g, l.Topic)
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
			x.p.directory.End()
			for _, l := range x.endpoints() {
				x.drop(l)
			}
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

// stir has what is due looked for.
func (x *exchange) stir() { wait.Signal(x.wake) }
