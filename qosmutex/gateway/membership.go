package gateway

import (
	"context"
	"math"
	"sync"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/protocol"
)

const (
	// nodePriority puts the root next to a gateway, where most requests come from,
	// unless there is one next to the broker.
	nodePriority = math.MinInt64 + 1
	// againAfter is the pause after an Open that failed.
	againAfter = 500 * time.Millisecond
)

// membership keeps one lock topic open. A member whose root has died waits for
// another forever; a membership opens the topic again, which creates it.
type membership struct {
	g    *gateway
	name string

	mu      sync.Mutex
	topic   *qosmutex.Topic
	changed chan struct{} // closed when topic is set
}

func newMembership(g *gateway, name string) *membership {
	return &membership{g: g, name: name, changed: make(chan struct{})}
}

// run keeps the topic open until ctx ends, and closes it.
func (m *membership) run(ctx context.Context) {
	for ctx.Err() == nil && m.g.p.Err() == nil {
		t, err := m.g.open(ctx, m.name)
		if err != nil {
			if ctx.Err() == nil {
				m.g.log.Info("lock topic not opened yet", "lock", m.name, "error", err)
			}
			pause(ctx, againAfter)
			continue
		}
		m.set(t)
		m.watch(ctx, t)
		m.set(nil)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_ = t.Close(closing)
		cancel()
	}
}

// watch returns when ctx or the topic has ended, or the participant is without a place
// for a TTL, so that its session is over and nothing is lost by a new beginning.
func (m *membership) watch(ctx context.Context, t *qosmutex.Topic) {
	ttl := time.Duration(t.Status().TTL)
	look := time.NewTicker(max(ttl/4, 50*time.Millisecond))
	defer look.Stop()
	placed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.Done():
			return
		case now := <-look.C:
			switch role := t.Status().Role; {
			case role == protocol.Root, role == protocol.Member:
				placed = now
			case now.Sub(placed) > ttl:
				m.g.log.Info("lock topic without a root: opening it again", "lock", m.name)
				return
			}
		}
	}
}

func (m *membership) set(t *qosmutex.Topic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topic = t
	close(m.changed)
	m.changed = make(chan struct{})
}

// await returns the topic once it is open.
func (m *membership) await(ctx context.Context) (*qosmutex.Topic, error) {
	for {
		m.mu.Lock()
		t, changed := m.topic, m.changed
		m.mu.Unlock()
		if t != nil && t.Err() == nil {
			return t, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lock takes a resource, over as many openings of the topic as it needs.
func (m *membership) lock(ctx context.Context, resource string, try bool, opts ...qosmutex.LockOption) (*qosmutex.Hold, error) {
	for {
		t, err := m.await(ctx)
		if err != nil {
			return nil, err
		}
		take := t.Lock
		if try {
			take = t.TryLock
		}
		hold, err := take(ctx, resource, opts...)
		if err == nil || ctx.Err() != nil || t.Err() == nil && !closing(err) {
			return hold, err
		}
		pause(ctx, againAfter/10) // the topic is about to be opened again
	}
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
