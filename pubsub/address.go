package pubsub

import "time"

// address makes the packets of a writer, whose samples stand on the topics
// R/data/{partition}/{topic}/{key}/{P}/{writer}. It is of one goroutine at a time.
type address struct {
	before, middle, after string
	qos                   byte          // of MQTT
	delay                 time.Duration // of coalescing

	bundles map[string]*bundle // by partition

	partition, key, last string // the topic made last: most writers need no other
}

func (a *address) topic(partition, key string) string {
	if a.last == "" || a.partition != partition || a.key != key {
		a.partition, a.key, a.last = partition, key, a.before+partition+a.middle+key+a.after
	}
	return a.last
}

// packet is that of one sample, which may share a message with others.
func (a *address) packet(partition, key string, payload []byte, with company) packet {
	p := packet{topic: a.topic(partition, key), payload: payload, qos: a.qos}
	if with == alone {
		return p
	}
	if p.bundle = a.bundles[partition]; p.bundle == nil {
		if len(a.bundles) >= maxBundles {
			clear(a.bundles) // what gathers goes without joining what follows
		}
		p.bundle = &bundle{delay: a.delay, mixed: a.before + partition + a.middle + manyKeys + a.after}
		a.bundles[partition] = p.bundle
	}
	if with == anyInstance {
		p.mixed = p.bundle.mixed
	}
	return p
}
