package inboxes

import (
	"sync/atomic"

	"padme/pubsub"
)

// box is an inbox whose owner is not there yet: until then messages are lost, which a
// transport may do.
type box struct {
	receive atomic.Pointer[func(from string, message []byte)]
}

func (b *box) open(receive func(from string, message []byte)) { b.receive.Store(&receive) }

func (b *box) message(l pubsub.Message) {
	if receive := b.receive.Load(); receive != nil {
		(*receive)(l.From, l.Payload)
	}
}
