package broker

import (
	"reflect"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// expiries has the retained messages that expire. mochi would copy all retained messages once
// a second to look for them: eighty thousand take a third of a processor, for ever.
type expiries struct {
	mu sync.Mutex
	at map[string]int64 // seconds since 1970, by topic
}

// note takes a message that is retained from now on.
func (e *expiries) note(topic string, pk *packets.Packet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pk.ProtocolVersion < 5 || pk.Expiry <= 0 || len(pk.Payload) == 0 {
		delete(e.at, topic)
		return
	}
	if e.at == nil {
		e.at = map[string]int64{}
	}
	e.at[topic] = pk.Expiry
}

// over returns the topics whose messages have expired, and forgets them.
func (e *expiries) over(now int64) (topics []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for topic, at := range e.at {
		if at < now {
			topics = append(topics, topic)
			delete(e.at, topic)
		}
	}
	return topics
}

// restoreExpiry has what the data directory held expire as before, which mochi does not load.
func (b *Broker) restoreExpiry() {
	if b.flow.persist == nil {
		return
	}
	for topic, at := range b.flow.persist.expire {
		if pk, there := b.server.Topics.Retained.Get(topic); there {
			pk.Expiry, pk.ProtocolVersion = at, 5
			b.server.Topics.Retained.Add(topic, pk)
			b.access.expiries.note(topic, &pk)
		}
	}
	b.flow.persist.expire = nil
	b.expire(time.Now())
}

// expire forgets what has expired, as mochi would.
func (b *Broker) expire(now time.Time) {
	for _, topic := range b.access.expiries.over(now.Unix()) {
		b.guard.tree.Lock()
		pk, there := b.server.Topics.Retained.Get(topic)
		if there = there && pk.Expiry > 0 && pk.Expiry < now.Unix(); there {
			b.server.Topics.Retained.Delete(topic)
		}
		b.guard.tree.Unlock()
		if !there {
			continue // another one has come
		}
		for _, h := range b.hooks {
			if h.Provides(mqtt.OnRetainedExpired) {
				h.OnRetainedExpired(topic)
			}
		}
	}
}

// stopExpiry keeps mochi from looking for what has expired. It does not tell of its ticker.
func stopExpiry(s *mqtt.Server) {
	loop := reflect.ValueOf(s).Elem().FieldByName("loop")
	if !loop.IsValid() || loop.Kind() != reflect.Pointer {
		return
	}
	field := loop.Elem().FieldByName("retainedExpiry")
	if !field.IsValid() {
		return
	}
	if ticker, ok := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(*time.Ticker); ok {
		ticker.Stop()
	}
}
