package broker

import "net"

// Attached is a connection that [Broker.Dial] has returned. In addition to the MQTT byte
// stream, it sends and receives messages at QoS 0 by calls, without a packet and without
// another goroutine. The same users and limits apply. Order is kept among such messages,
// but not between them and the bytes.
type Attached struct {
	net.Conn
	broker *conn // its other end
	frame  []byte
}

// Attach makes the broker call receive, from then on, for each message to an inbox, or to or
// from a client of locks, that is to be received at QoS 0 and is not retained, instead of
// sending its bytes. The publisher's goroutine makes the call and waits for it, so calls may
// overlap, and receive must not block. receive owns the payload. Call Attach after MQTT has
// accepted the connection and before subscribing.
func (a *Attached) Attach(receive func(topic string, payload []byte)) {
	a.broker.outlet.attached.Store(&receive)
}

// Post publishes a message at QoS 0, not retained. It does not block, and does not use
// payload after it returns. Only one goroutine at a time may call it. It returns false if
// the message must be written as a packet, because some subscribers of the topic can be
// reached only that way, or because it is refused.
func (a *Attached) Post(topic string, payload []byte) bool {
	cl := a.broker.client.Load()
	if cl == nil || !a.broker.established() {
		return false
	}
	a.frame = appendPublish(a.frame[:0], topic, payload)
	defer func() {
		if cap(a.frame) > keptFrame {
			a.frame = nil
		}
	}()
	return a.broker.direct.takeOne(a.broker, cl, a.frame) > 0
}

// keptFrame is up to which size the memory of a message is used again.
const keptFrame = 4 << 10
