package qosmutex

import (
	"context"
	"encoding/binary"
)

// barrierSize tells a barrier from a message to ourselves, which is longer.
const barrierSize = 8

// barriers are messages to ourselves that are on their way.
type barriers struct {
	last    uint64
	waiting []barrier // in order of number
}

type barrier struct {
	number uint64
	back   chan struct{}
}

// barrier returns when everything that the broker had for us before the call
// has been handled: a message to ourselves comes back behind it.
func (t *Topic) barrier(ctx context.Context) error {
	b, err := t.sendBarrier()
	if err != nil {
		return err
	}
	select {
	case <-b.back:
		return nil
	case <-t.ctx.Done():
		return t.closedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Topic) sendBarrier() (barrier, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return barrier{}, t.closedError()
	}
	b := barrier{t.barriers.last + 1, make(chan struct{})}
	if err := t.p.Send(t.self.ID, t.channel, binary.BigEndian.AppendUint64(nil, b.number)); err != nil {
		return barrier{}, err
	}
	t.barriers.last = b.number
	t.barriers.waiting = append(t.barriers.waiting, b)
	return b, nil
}

// passBarrier handles a message from ourselves. Messages keep their order, so it
// answers for all that were sent before it, those lost included.
func (t *Topic) passBarrier(payload []byte) {
	number := binary.BigEndian.Uint64(payload)
	w := &t.barriers.waiting
	for len(*w) > 0 && (*w)[0].number <= number {
		close((*w)[0].back)
		*w = (*w)[1:]
	}
}
