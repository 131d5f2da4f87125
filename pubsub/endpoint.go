package pubsub

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"padme/pubsub/internal/discovery"
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wire"
)

// localEndpoint is a writer or reader of this participant.
type localEndpoint struct {
	*discovery.Local
	x      *exchange
	qos    atomic.Pointer[QoS] // as it is
	core   core
	events *events
	ended  chan struct{} // closed when the endpoint or its participant has ended
}

// core is a writer's or reader's side of the protocol.
type core interface {
	Tick(now time.Time) (next time.Time)
	Handle(from wire.GUID, m *wire.Repair) bool // false: there is no such message for it
	Matched(reliable.Peer)
	Updated(reliable.Peer)
	Unmatched(g wire.GUID, died bool)
	Parted(g wire.GUID, ours bool)
	Adapt(reliable.Policies)
}

// Matched and the methods after it implement discovery.Endpoint.
func (l *localEndpoint) Matched(e *discovery.Remote, change uint64) {
	l.core.Matched(peerOf(e, change))
	l.x.stir()
}

func (l *localEndpoint) Updated(e *discovery.Remote, change uint64) {
	l.core.Updated(peerOf(e, change))
	l.x.stir()
}

func (l *localEndpoint) Unmatched(g wire.GUID, died bool) {
	l.core.Unmatched(g, died)
	l.x.stir()
}

func (l *localEndpoint) EndedBefore(g wire.GUID, last uint64) {
	if r, ok := l.core.(*reliable.Receiver); ok {
		r.EndedBefore(g, last)
	}
}

func (l *localEndpoint) Parted(g wire.GUID, ours bool) {
	l.core.Parted(g, ours)
	l.x.stir()
}

func (l *localEndpoint) Mismatched(e *discovery.Remote, why string) {
	if why == discovery.OtherType {
		l.events.add(InconsistentTopic{GUID(e.GUID), e.Type})
	} else {
		l.events.add(IncompatibleQoS{GUID(e.GUID), why})
	}
}

func (l *localEndpoint) Settle(alive func(wire.GUID) bool) {
	if r, ok := l.core.(*reliable.Receiver); ok {
		r.ForgetOutside()
		r.Settle(alive)
	}
	l.x.stir()
}

func (l *localEndpoint) End() {
	if s, ok := l.core.(*reliable.Sender); ok {
		l.x.ended.Remember(l.Name, s.End())
	}
	l.x.drop(l)
}

// await blocks until what is awaited is there; the channel is closed when that may have
// changed. Errors: why ctx ended, or the endpoint.
func (l *localEndpoint) await(ctx context.Context, there func() (bool, <-chan struct{})) error {
	for {
		ok, change := there()
		if ok {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ended:
			return l.Err()
		}
	}
}

// over reports whether the endpoint has ended.
func (l *localEndpoint) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// all yields the endpoint's events.
func (l *localEndpoint) all(ctx context.Context) iter.Seq2[Event, error] {
	return l.events.all(ctx, l.ended, l.Err)
}
