package pubsub

import (
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wait"
	"padme/pubsub/internal/wire"
)

// dataChanged follows the data lane.
func (x *exchange) dataChanged(up, again bool) {
	if !up || !again {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.local {
		if s, ok := l.core.(*reliable.Sender); ok {
			s.Stale()
		}
	}
	wait.Signal(x.wake)
}

// retained handles a message that the broker has kept.
func (x *exchange) retained(r *reliable.Receiver, topic, partition, key, levels string, payload []byte) {
	if o := r.Orphan(partition, key, levels, payload); o != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		r.Adopt(o, x.standing(topic))
	}
}

// standing tells whether a writer of a topic is alive; x.mu is held.
func (x *exchange) standing(topic string) func(wire.GUID) bool {
	return func(g wire.GUID) bool {
		e := x.remoteEndpoint(topic, g)
		return e != nil && x.alive[g.Participant].counts(e)
	}
}
