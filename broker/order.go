package broker

import (
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// orderWait bounds the wait of a retained message for the one before it on its topic: without
// a bound they could wait for each other, if the earlier one waits for a subscriber to
// acknowledge and the later one is what that subscriber is publishing.
const orderWait = 500 * time.Millisecond

// order serializes the retained messages of a topic: each is stored and handed to all
// subscribers before the next. mochi does both in the goroutine that reads the publisher's
// connection, so of two concurrent messages a subscriber could hear last the one that is not
// retained, and an answer before its question. The zero value is ready to use.
type order struct {
	mu     sync.Mutex
	topics map[string]*slot
	has    map[*mqtt.Client]*slot // by publisher
}

// slot is the right to publish a retained message on a topic.
type slot struct {
	topic string
	taken chan struct{} // full: a publisher has it
	users int           // publishers that have it or wait
}

// begin waits for the slot of a topic, for orderWait at most. cl publishes nothing else until
// end.
func (o *order) begin(cl *mqtt.Client, topic string) {
	o.mu.Lock()
	s := o.topics[topic]
	if s == nil {
		if o.topics == nil {
			o.topics, o.has = map[string]*slot{}, map[*mqtt.Client]*slot{}
		}
		s = &slot{topic: topic, taken: make(chan struct{}, 1)}
		o.topics[topic] = s
	}
	s.users++
	o.mu.Unlock()
	taken := s.take()
	o.mu.Lock()
	defer o.mu.Unlock()
	if taken {
		o.has[cl] = s
	} else {
		o.leave(s)
	}
}

func (s *slot) take() bool {
	select {
	case s.taken <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(orderWait)
	defer late.Stop()
	select {
	case s.taken <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

// end gives back the slot of cl, if it has one.
func (o *order) end(cl *mqtt.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.has[cl]; s != nil {
		delete(o.has, cl)
		<-s.taken
		o.leave(s)
	}
}

func (o *order) leave(s *slot) {
	if s.users--; s.users == 0 {
		delete(o.topics, s.topic)
	}
}
