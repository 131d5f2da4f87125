package pubsub

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minBackoff and maxBackoff bound the wait between attempts to reconnect.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// politeness bounds the wait for the broker to take a DISCONNECT.
	politeness = 500 * time.Millisecond
)

// A lane is one MQTT connection of a participant, opened again whenever it is
// lost, with its own outgoing queue and subscriptions.
type lane struct {
	name   string
	keeps  bool // what a lost connection leaves unacknowledged goes out again
	out    outbox
	routes routes

	establish func(context.Context) (*link, error) // connects and prepares a new link
	changed   func(up, again bool)                 // after up or loss; again: not for the first time
	failed    func(error)                          // an attempt to reconnect failed
	dropped   func(n int)                          // packets given up by a loss

	flight atomic.Pointer[flight] // of the link; nil while offline

	mu     sync.Mutex
	link   *link         // nil while offline
	change chan struct{} // closed when link changes
}

// current returns the link, nil while offline, and a channel that is closed
// when that changes.
func (l *lane) current() (*link, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.change == nil {
		l.change = make(chan struct{})
	}
	return l.link, l.change
}

func (l *lane) set(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link = k
	if l.change != nil {
		close(l.change)
		l.change = nil
	}
}

// online waits for a link.
func (l *lane) online(ctx context.Context) (*link, error) {
	for {
		k, change := l.current()
		if k != nil {
			return k, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// connected returns a context that ends with the link that the lane has now. The caller
// must cancel it.
func (l *lane) connected(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	k, _ := l.current()
	if k == nil {
		cancel()
		return ctx, cancel
	}
	go func() {
		defer cancel()
		select {
		case <-k.lost:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// run keeps the lane connected until ctx ends; k is the first link or nil.
func (l *lane) run(ctx context.Context, k *link) {
	var wait backoff
	for again := k != nil; ; again = true {
		if k == nil {
			if k = l.reconnect(ctx, &wait); k == nil {
				return
			}
			l.up(k, again)
		}
		began := time.Now()
		unacked := l.pump(ctx, k)
		l.set(nil)
		l.dropped(l.out.lost(unacked))
		k.close(politeness)
		if ctx.Err() != nil {
			return
		}
		l.changed(false, true)
		wait.lasted(time.Since(began))
		k = nil
	}
}

// up makes k the link of the lane.
func (l *lane) up(k *link, again bool) {
	l.set(k)
	l.out.open()
	l.changed(true, again)
}

// reconnect returns nil when ctx has ended or there is no point in going on.
func (l *lane) reconnect(ctx context.Context, wait *backoff) *link {
	for {
		if !sleep(ctx, wait.next()) {
			return nil
		}
		k, err := l.establish(ctx)
		if err == nil {
			return k
		}
		if ctx.Err() == nil {
			l.failed(err)
		}
	}
}

// pump publishes what the outbox holds until k is lost or ctx ends, and returns
// what the broker did not acknowledge.
func (l *lane) pump(ctx context.Context, k *link) []packet {
	f := &flight{}
	l.flight.Store(f)
	defer l.flight.Store(nil)
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	for {
		if failed := f.reap(); failed {
			k.lose(errUnacknowledged)
			return f.packets
		}
		if f.full() {
			select {
			case <-f.oldest():
			case <-k.lost:
				return f.packets
			case <-ctx.Done():
				return f.packets
			}
			continue
		}
		p, due, ok := l.out.take(!f.empty())
		if ok && p.current != nil && !p.current() {
			continue
		}
		if ok {
			f.took(&p)
		}
		switch {
		case ok && p.op != nil:
			p.op(k, f)
		case ok && p.qos == 0:
			if err := k.post(&p); err != nil {
				k.lose(err)
			}
		case ok:
			r := k.publish(p.topic, p.payload, p.qos, p.retain)
			if !l.keeps {
				p.payload = nil
			}
			f.add(r, p)
		default:
			var landed <-chan struct{}
			var over <-chan time.Time
			if !due.IsZero() {
				gathered.Reset(time.Until(due))
				landed, over = f.landed(), gathered.C
			}
			select {
			case <-l.out.ready():
			case <-landed:
			case <-over:
			case <-k.lost:
				return f.packets
			case <-ctx.Done():
				return f.packets
			}
		}
		if ok && k.gone() {
			return f.packets
		}
	}
}

// passed is the place up to which no packet is on the way to the broker any more.
func (l *lane) passed() uint64 {
	if f := l.flight.Load(); f != nil {
		return f.passed()
	}
	return math.MaxUint64
}

// flush returns when the broker has acknowledged everything put before.
func (l *lane) flush(ctx context.Context) error {
	done := make(chan error, 1)
	err := l.out.put(packet{op: func(_ *link, f *flight) {
		for !f.empty() {
			if err := f.receipts[0].wait(ctx); err != nil {
				done <- err
				return
			}
			f.reap()
		}
		done <- nil
	}})
	if err != nil {
		return err
	}
	k, change := l.current()
	if k == nil {
		return ErrOffline
	}
	select {
	case err := <-done:
		return err
	case <-change:
		return ErrOffline
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// subscribe adds a handler and returns when the broker has granted filter.
func (l *lane) subscribe(ctx context.Context, filter, below string, handler func(topic string, payload []byte, retained bool)) (stop func(), err error) {
	r := l.routes.add(below, filter, handler)
	for {
		k, err := l.online(ctx)
		if err == nil {
			err = l.request(ctx, k, filter)
		}
		if err == nil {
			return sync.OnceFunc(func() { l.unsubscribe(r) }), nil
		}
		if !errors.Is(err, ErrOffline) {
			l.unsubscribe(r)
			return nil, err
		}
		if !sleep(ctx, minBackoff) { // the link is about to be replaced
			l.unsubscribe(r)
			return nil, context.Cause(ctx)
		}
	}
}

// request subscribes through the outbox, so that it keeps its order with
// unsubscriptions of the same filter.
func (l *lane) request(ctx context.Context, k *link, filter string) error {
	for range 10 {
		sent := make(chan receipt, 1)
		if err := l.out.put(packet{op: func(k *link, _ *flight) { sent <- k.subscribe(filter) }}); err != nil {
			return err
		}
		var err error
		select {
		case r := <-sent:
			err = r.wait(ctx)
		case <-k.lost:
			err = ErrOffline
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if !packetIDInUse(err) {
			return err
		}
	}
	return ErrOffline
}

// packetIDInUse recognises a broker which keeps one set of packet ids for both
// directions and refuses a subscription whose id it happens to use itself. The
// next id will do.
func packetIDInUse(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == 0x91
}

// resubscribe asks for every filter of the lane on a new link.
func (l *lane) resubscribe(ctx context.Context, k *link) error {
	return subscribeAll(ctx, k, l.routes.filters())
}

func subscribeAll(ctx context.Context, k *link, filters []string) error {
	for range 10 {
		receipts := make([]receipt, len(filters))
		for i, f := range filters {
			receipts[i] = k.subscribe(f)
		}
		filters = nil
		for _, r := range receipts {
			err := r.wait(ctx)
			if packetIDInUse(err) {
				filters = append(filters, r.topic)
			} else if err != nil {
				return err
			}
		}
		if filters == nil {
			return nil
		}
	}
	return ErrOffline
}

func (l *lane) unsubscribe(r *route) {
	if !l.routes.remove(r) {
		return
	}
	// Offline there is nothing to undo.
	_ = l.out.put(packet{op: func(k *link, _ *flight) {
		// Somebody may have subscribed, and been granted, between remove and put.
		if !l.routes.has(r.filter) {
			k.unsubscribe(r.filter)
		}
	}})
}

// backoff is the wait before the next attempt.
type backoff time.Duration

// next doubles the wait; the half of it is random, so that participants do not
// all come back to a restarted broker at once.
func (b *backoff) next() time.Duration {
	d := min(max(2*time.Duration(*b), minBackoff), maxBackoff)
	*b = backoff(d)
	return d/2 + rand.N(d/2)
}

// lasted begins again after a link that was there for clearly longer than the wait before
// it, as when a broker is restarted now and then. One that comes and goes waits longer
// and longer.
func (b *backoff) lasted(d time.Duration) {
	if d > min(max(2*time.Duration(*b), time.Second), maxBackoff) {
		*b = 0
	}
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
