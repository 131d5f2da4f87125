package pubsub

import (
	"strings"
	"time"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/reliable"
	"padme/pubsub/internal/wire"
)

// address makes the packets of a writer, whose samples stand on the topics
// R/data/{partition}/{topic}/{key}/{P}/{writer}. It is of one goroutine at a time.
type address struct {
	before, middle, after string
	name                  string        // of the writer
	qos                   byte          // of MQTT
	delay                 time.Duration // of coalescing

	bundles map[string]*connection.Bundle // by partition

	partition, key, last string // the topic made last: most writers need no other
}

func (a *address) topic(partition, key string) string {
	if a.last == "" || a.partition != partition || a.key != key {
		a.partition, a.key, a.last = partition, key, a.before+partition+a.middle+key+a.after
	}
	return a.last
}

// instance is what the topics of an instance begin with, for every writer of the participant.
func (a *address) instance(partition, key string) string {
	return strings.TrimSuffix(a.topic(partition, key), a.name)
}

// gather has samples gather for another time from now on.
func (a *address) gather(delay time.Duration) {
	a.delay = delay
	clear(a.bundles)
}

// packet is that of one sample, which may share a message with others.
func (a *address) packet(partition, key string, payload []byte, with reliable.Sharing) connection.Packet {
	p := connection.Packet{Topic: a.topic(partition, key), Payload: payload, QoS: a.qos}
	if with == reliable.Alone {
		return p
	}
	if p.Bundle = a.bundles[partition]; p.Bundle == nil {
		if len(a.bundles) >= maxBundles {
			clear(a.bundles) // what gathers goes without joining what follows
		}
		p.Bundle = &connection.Bundle{Delay: a.delay, Mixed: a.before + partition + a.middle + wire.ManyKeys + a.after}
		a.bundles[partition] = p.Bundle
	}
	if with == reliable.AnyInstance {
		p.Mixed = p.Bundle.Mixed
	}
	return p
}
