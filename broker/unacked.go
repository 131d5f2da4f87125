package broker

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// unacked is how many bytes of messages at QoS 1 were sent, or wait to be sent, to one
// connection and are not acknowledged. It is guarded by the mu of the connection's share.
type unacked struct {
	bytes  int64
	unread int64 // of messages at any QoS that wait in mochi's queue; see unread.go
	buffer int64 // that wait in the sendBuffer, likewise
	over   bool  // the connection has left
}

// holds charges a message that a connection is to acknowledge.
func (c *conn) holds(pk packets.Packet) { c.addUnacked(queuedSize(pk)) }

// acknowledged is called when a client acknowledges, before mochi forgets the message.
func (c *conn) acknowledged(cl *mqtt.Client, id uint16) {
	if delivery, there := cl.State.Inflight.Get(id); there && delivery.FixedHeader.Type == packets.Publish {
		c.lets(delivery)
		c.progress.Add(progressOf(delivery))
	}
}

// lets gives back what a connection has acknowledged, or need not any more.
func (c *conn) lets(pk packets.Packet) {
	if pk.FixedHeader.Type == packets.Publish {
		c.addUnacked(-queuedSize(pk))
	}
}

func (c *conn) addUnacked(size int64) {
	of := c.share
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if !c.unacked.over {
		c.unacked.bytes += size
		of.unacked += size
	}
}

// endUnacked gives everything back: what is kept for an absent session is charged by usages.
func (c *conn) endUnacked() {
	of := c.share
	of.mu.Lock()
	defer of.mu.Unlock()
	of.unacked -= c.unacked.bytes
	of.unread -= c.unacked.unread + c.unacked.buffer
	c.unacked = unacked{over: true}
}

// holdsTooMuch reports whether a connection leaves more than its part unacknowledged while
// its user leaves more than most. One that acknowledges does not suffer from one that does
// not, and all of a user hold at most twice as much.
func (c *conn) holdsTooMuch(l Limits) bool {
	of := c.share
	if of == nil {
		return false
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	most := int64(l.UserQueue)
	return of.unacked >= most && c.unacked.bytes >= most/int64(l.UserClients)
}
