package pubsub

import (
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wire"
)

// dataChanged follows the data lane.
func (x *exchange) dataChanged(up, again bool) {
	if !again {
		return
	}
	for _, l := range x.endpoints() {
		switch c := l.core.(type) {
		case *reliable.Sender:
			if up {
				c.Stale()
			}
		case *reliable.Receiver:
			c.Connected(up)
		}
	}
	x.stir()
}

// retained handles a message that the broker has kept.
func (x *exchange) retained(r *reliable.Receiver, topic, partition, key, levels string, payload []byte) {
	if o := r.Orphan(partition, key, levels, payload); o != nil {
		x.p.directory.Standing(topic, func(alive func(wire.GUID) bool) { r.Adopt(o, alive) })
	}
}
