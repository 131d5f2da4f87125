package connection

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"padme/internal/wait"
	"padme/pubsub/internal/failure"
)

// Politeness bounds the wait for the broker to take a DISCONNECT.
const Politeness = 500 * time.Millisecond

// A Lane is one MQTT connection of a participant, opened again whenever it is
// lost, with its own outgoing queue and subscriptions.
type Lane struct {
	Name   string
	Keeps  bool // what a lost connection leaves unacknowledged goes out again
	Once   bool // what it subscribes to comes at most once
	Out    Outbox
	Log    *slog.Logger
	routes routes

	Establish func(context.Context) (*Link, error) // connects and prepares a new link
	Changed   func(up, again bool)                 // after up or loss; again: not for the first time
	Failed    func(error)                          // an attempt to reconnect failed
	Dropped   func(n int)                          // packets given up by a loss

	flight atomic.Pointer[flight] // of the link; nil while offline
	rude   atomic.Bool            // it ends without a farewell, so that the broker publishes the will

	mu     sync.Mutex
	link   *Link       // nil while offline
	change wait.Change // of link
}

// Current returns the link, nil while offline, and a channel that is closed
// when that changes.
func (l *Lane) Current() (*Link, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link, l.change.Next()
}

func (l *Lane) set(k *Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link = k
	l.change.Happened()
}

// Online waits for a link.
func (l *Lane) Online(ctx context.Context) (*Link, error) {
	for {
		k, change := l.Current()
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

// Put queues p. It never blocks, and keeps p.Payload.
func (l *Lane) Put(p Packet) error { return l.Out.Put(p) }

// Dispatch calls the handlers of a topic; one goroutine does.
func (l *Lane) Dispatch(topic string, payload []byte, retained bool) {
	l.routes.dispatch(topic, payload, retained)
}

// Filters are those that the lane is subscribed to, or will be.
func (l *Lane) Filters() []string { return l.routes.filters() }

// HangUp lets the lane end without a farewell, so that the broker publishes the will.
func (l *Lane) HangUp() { l.rude.Store(true) }

// Connected returns a context that ends, with ErrOffline, with the link that the lane
// has now. The caller must cancel it.
func (l *Lane) Connected(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	k, _ := l.Current()
	if k == nil {
		cancel(failure.ErrOffline)
		return ctx, func() {}
	}
	go func() {
		select {
		case <-k.lost:
			cancel(failure.ErrOffline)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Run keeps the lane connected until ctx ends; k is the first link or nil.
func (l *Lane) Run(ctx context.Context, k *Link) {
	var pause backoff
	for again := k != nil; ; again = true {
		if k == nil {
			if k = l.reconnect(ctx, &pause); k == nil {
				return
			}
			l.Up(k, again)
		}
		began := time.Now()
		left := l.pumpPolitely(ctx, k)
		l.set(nil)
		l.Dropped(l.Out.lost(left.packets))
		k.Close(l.parting())
		if ctx.Err() != nil {
			return
		}
		// A broker that limits the size of messages below ours cuts the connection.
		l.Log.Info("connection lost", "lane", l.Name, "error", k.err, "largest unacknowledged", left.largest())
		l.Changed(false, true)
		pause.lasted(time.Since(began))
		k = nil
	}
}

// parting is how long a link may take for its DISCONNECT.
func (l *Lane) parting() time.Duration {
	if l.rude.Load() {
		return 0
	}
	return Politeness
}

// Up makes k the link of the lane. Whoever sees the link can put.
func (l *Lane) Up(k *Link, again bool) {
	l.Out.Open()
	l.set(k)
	l.Changed(true, again)
}

// reconnect returns nil when ctx has ended or there is no point in going on.
func (l *Lane) reconnect(ctx context.Context, pause *backoff) *Link {
	for {
		if !wait.Sleep(ctx, pause.next()) {
			return nil
		}
		k, err := l.Establish(ctx)
		if err == nil {
			return k
		}
		if ctx.Err() == nil {
			l.Failed(err)
		}
	}
}

// pumpPolitely is pump, but for a write that holds it up after ctx has ended: that ends the
// connection.
func (l *Lane) pumpPolitely(ctx context.Context, k *Link) *flight {
	pumped, watched := make(chan struct{}), make(chan struct{})
	unwatched := context.AfterFunc(ctx, func() {
		defer close(watched)
		k.conn.cutAfter(l.parting(), pumped)
	})
	left := l.pump(ctx, k)
	close(pumped)
	if !unwatched() {
		<-watched
	}
	return left
}

// pump publishes what the outbox holds until k is lost or ctx ends, and returns
// what the broker did not acknowledge.
func (l *Lane) pump(ctx context.Context, k *Link) *flight {
	f := &flight{}
	l.flight.Store(f)
	defer l.flight.Store(nil)
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	for {
		if failed := f.reap(); failed {
			k.lose(errUnacknowledged)
			return f
		}
		if f.full() {
			k.flush()
			select {
			case <-f.oldest():
			case <-k.lost:
				return f
			case <-ctx.Done():
				return f
			}
			continue
		}
		p, due, ok := l.Out.Take(!f.empty())
		if ok && p.Current != nil && !p.Current() {
			continue
		}
		if ok {
			f.took(&p)
		}
		switch {
		case ok && p.op != nil:
			k.flush()
			p.op(k, f)
		case ok && p.QoS == 0:
			k.post(&p)
		case ok:
			r := k.Publish(&p)
			if !l.Keeps {
				p.Payload = nil
			}
			f.add(r, p)
		default: // so what was posted together goes out together
			k.flush()
			var landed <-chan struct{}
			var over <-chan time.Time
			if !due.IsZero() {
				gathered.Reset(time.Until(due))
				landed, over = f.landed(), gathered.C
			}
			select {
			case <-l.Out.ready():
			case <-landed:
			case <-over:
			case <-k.lost:
				return f
			case <-ctx.Done():
				return f
			}
		}
		if ok {
			f.wrote()
		}
		if ok && k.Gone() {
			return f
		}
	}
}

// Passed is the place up to which no packet is on the way to the broker any more.
func (l *Lane) Passed() uint64 {
	if f := l.flight.Load(); f != nil {
		return f.passed()
	}
	return math.MaxUint64
}

// Flush returns when the broker has acknowledged everything put before.
func (l *Lane) Flush(ctx context.Context) error {
	k, change := l.Current() // before the put: what is put may be lost, and the connection be back
	if k == nil {
		return failure.ErrOffline
	}
	done := make(chan error, 1)
	err := l.Out.Put(Packet{op: func(_ *Link, f *flight) {
		for !f.empty() {
			if err := f.receipts[0].Wait(ctx); err != nil {
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
	select {
	case err := <-done:
		return err
	case <-change:
		return failure.ErrOffline
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
