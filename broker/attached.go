package broker

import "net"

// Attached is a connection that [Broker.Dial] has returned. Beside the bytes of MQTT it takes
// and hands over messages at QoS 0 by calls, without a packet and without another goroutine.
// The same users and limits hold. Order is kept between such messages, not between them and
// the bytes.
type Attached struct {
	net.Conn
	broker *conn // its other end
	frame  []byte
}

// Attach has receive called, from then on, for each message at QoS 0 that is not retained, in
// place of its bytes. Its publisher's goroutine calls it, so there may be several calls at a
// time, and waits for it: it must not block. The payload belongs to it. Call Attach when MQTT
// has accepted the connection, before anything is subscribed to.
func (a *Attached) Attach(receive func(topic string, payload []byte)) {
	a.broker.outlet.attached.Store(&receive)
}

// Post publishes a message at QoS 0, not retained. It does not block, and does not use payload
// after it returns. One goroutine at a time calls it. It reports false if the message must be
// written as a packet: the topic has subscribers that are reached only so, or it is refused.
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
