package connection

import (
	"context"
	"errors"
	"testing"
	"time"

	"padme/pubsub/internal/failure"
)

// lossyBox is an outbox whose lane loses its connection, and is back, right after a put.
type lossyBox struct {
	*Queue
	l *Lane
}

func (b lossyBox) Put(p Packet) error {
	err := b.Queue.Put(p)
	b.l.set(nil)
	b.l.Dropped(b.lost(nil))
	b.l.Up(&Link{}, true)
	return err
}

// What was put before is lost, and the new connection will not say that it is there.
func TestAFlushDoesNotWaitForAConnectionThatIsBack(t *testing.T) {
	l := &Lane{Changed: func(bool, bool) {}, Dropped: func(int) {}}
	l.Out = lossyBox{NewQueue(), l}
	l.Up(&Link{}, false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.Flush(ctx); !errors.Is(err, failure.ErrOffline) {
		t.Errorf("Flush: %v", err)
	}
}

// shyBox is an outbox that looks, when it is opened, whether its lane has a link already.
type shyBox struct {
	*Queue
	l    *Lane
	seen bool
}

func (b *shyBox) Open() {
	k, _ := b.l.Current()
	b.seen = k != nil
	b.Queue.Open()
}

// Whoever waited for the link puts at once, and was told that the broker is away.
func TestAnOutboxIsOpenBeforeItsLinkIsSeen(t *testing.T) {
	l := &Lane{Changed: func(bool, bool) {}, Dropped: func(int) {}}
	b := &shyBox{Queue: NewQueue(), l: l}
	l.Out = b
	l.Up(&Link{}, false)
	if b.seen {
		t.Error("the link was there before the outbox took packets")
	}
}
