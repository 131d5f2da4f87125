package pubsub

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
)

// extra is a lane that begins when it is first used.
type extra struct {
	once sync.Once
	lane *connection.Lane // under the participant's mu
}

// lane returns one of the connections that users name.
func (p *Participant) lane(l Lane) (*connection.Lane, error) {
	switch l {
	case Main, Spare:
		return p.main, nil
	case Side:
		return p.begun(&p.side, func() *connection.Lane {
			side := p.newLane("side", "~s", p.root+"/", connection.NewLatest(func() { p.counters.drop(drop.Backlog) }))
			side.Keeps = true
			return side
		})
	case Crowd:
		return p.begun(&p.crowd, func() *connection.Lane {
			crowd := p.newLane("crowd", "~c", p.root+"/", connection.NewLatest(func() {}))
			crowd.Once = true // a crowd repeats what is not answered
			return crowd
		})
	}
	return nil, fmt.Errorf("%w: lane %d, there are Main, Side, Crowd and Spare", ErrInvalid, l)
}

// begun returns a lane that runs.
func (p *Participant) begun(e *extra, made func() *connection.Lane) (*connection.Lane, error) {
	if p.ctx.Err() != nil {
		return nil, p.Err()
	}
	e.once.Do(func() {
		lane := made()
		if p.start(func() { lane.Run(p.ctx, nil) }) {
			p.mu.Lock()
			e.lane = lane
			p.mu.Unlock()
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.lane == nil {
		return nil, ErrClosed
	}
	return e.lane, nil
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
