package pubsub

import (
	"context"
	"fmt"
	"strings"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
)

// lane returns one of the connections that users name. It begins the side lane.
func (p *Participant) lane(l Lane) (*connection.Lane, error) {
	switch l {
	case Main:
		return p.main, nil
	case Side:
	default:
		return nil, fmt.Errorf("%w: lane %d, there are Main and Side", ErrInvalid, l)
	}
	if p.ctx.Err() != nil {
		return nil, p.Err()
	}
	p.sideOnce.Do(func() {
		side := p.newLane("side", "~s", p.root+"/", connection.NewLatest(func() { p.counters.drop(drop.Backlog) }))
		side.Keeps, side.Once = true, true // a crowd repeats what is not answered
		if p.start(func() { side.Run(p.ctx, nil) }) {
			p.mu.Lock()
			p.side = side
			p.mu.Unlock()
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.side == nil {
		return nil, ErrClosed
	}
	return p.side, nil
}

// newLane makes a lane that nothing but its subscriptions must be told again whenever it
// connects. The suffix is of its client id; it hears what is on topics that begin with
// below, and subscribes to the rest of their names.
func (p *Participant) newLane(name, suffix, below string, out connection.Outbox) *connection.Lane {
	l := &connection.Lane{
		Name: name, Log: p.log, Out: out, Changed: func(bool, bool) {},
		Failed:  func(err error) { p.log.Info("connecting the "+name+" lane failed", "error", err) },
		Dropped: func(n int) { p.counters.dropped[drop.Disconnect].Add(uint64(n)) },
	}
	l.Establish = func(ctx context.Context) (*connection.Link, error) {
		k, err := p.connectLane(ctx, suffix, connection.Packet{}, func(topic string, payload []byte, retained bool) {
			if rest, ok := strings.CutPrefix(topic, below); ok {
				l.Dispatch(rest, payload, retained)
			}
		})
		if err != nil {
			return nil, err
		}
		if err := l.Resubscribe(ctx, k); err != nil {
			k.Close(connection.Politeness)
			return nil, err
		}
		return k, nil
	}
	return l
}
