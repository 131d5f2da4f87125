package broker

import (
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// orderWait is how long a retained message waits for the one before it under its topic. That
// one may wait for a subscriber that lags, and the subscriber, to read on, for this one.
const orderWait = 500 * time.Millisecond

// order lets one retained message of a topic at a time be retained and handed to its
// subscribers. mochi has that done by whoever reads it from its publisher, so that of two
// that come at the same time some would hear last what is not retained; also who answers
// would be heard before what was answered. The zero value is ready to use.
type order struct {
	mu     sync.Mutex
	topics map[string]*turnOf
	has    map[*mqtt.Client]*turnOf // who publishes
}

// turnOf is whose turn it is to publish under a topic.
type turnOf struct {
	topic string
	taken chan struct{} // full: somebody has it
	users int           // who have it or wait
}

// begin waits for the turn of cl, which publishes nothing else until it ends.
func (o *order) begin(cl *mqtt.Client, topic string) {
	o.mu.Lock()
	t := o.topics[topic]
	if t == nil {
		if o.topics == nil {
			o.topics, o.has = map[string]*turnOf{}, map[*mqtt.Client]*turnOf{}
		}
		t = &turnOf{topic: topic, taken: make(chan struct{}, 1)}
		o.topics[topic] = t
	}
	t.users++
	o.mu.Unlock()
	taken := t.take()
	o.mu.Lock()
	defer o.mu.Unlock()
	if taken {
		o.has[cl] = t
	} else {
		o.leave(t)
	}
}

func (t *turnOf) take() bool {
	select {
	case t.taken <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(orderWait)
	defer late.Stop()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

// end ends the turn of cl, if it had one.
func (o *order) end(cl *mqtt.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.has[cl]; t != nil {
		delete(o.has, cl)
		<-t.taken
		o.leave(t)
	}
}

func (o *order) leave(t *turnOf) {
	if t.users--; t.users == 0 {
		delete(o.topics, t.topic)
	}
}
