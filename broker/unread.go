package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// underway has the publications that mochi is handing to their subscribers. Before mochi
// queues a publication for a subscriber it asks whether that one may have it, and names only
// the topic. The string is that of the publication itself, so its address tells which one.
type underway struct {
	mu sync.RWMutex
	by map[*byte]publication
}

// publication is one that is underway.
type publication struct {
	packets.Packet
	called []*mqtt.Client // who has it already; see direct.call
}

// begin notes a publication, and who was called with it if that is not noted yet.
func (u *underway) begin(pk packets.Packet, called []*mqtt.Client) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = map[*byte]publication{}
	}
	at := unsafe.StringData(pk.TopicName)
	if called == nil {
		called = u.by[at].called
	}
	u.by[at] = publication{pk, called}
}

func (u *underway) end(pk packets.Packet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.by, unsafe.StringData(pk.TopicName))
}

func (u *underway) find(topic string) (pk publication, ok bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	pk, ok = u.by[unsafe.StringData(topic)]
	return pk, ok
}

// mayWait charges a publication to a connection that is about to get it, and reports whether
// there is room for it to wait there until it is sent. One that was published at QoS 0, or is
// subscribed to at QoS 0, is dropped if there is none; for others their publisher waits, see
// flow.await. Who was called with it gets no other.
func (h *flow) mayWait(cl *mqtt.Client, topic string) bool {
	c := connOf(cl)
	if c == nil {
		return true
	}
	pk, ok := h.underway.find(topic)
	if ok && slices.Contains(pk.called, cl) {
		return false
	}
	if !ok || c.share == nil {
		return true
	}
	if !c.unreadTooMuch(h.limits) || pk.FixedHeader.Qos > 0 && h.server.Topics.Subscribers(topic).Subscriptions[cl.ID].Qos > 0 {
		c.addUnread(queuedSize(pk.Packet))
		return true
	}
	h.access.limited("max-user-queue", string(cl.Properties.Username), cl.Net.Remote)
	atomic.AddInt64(&h.server.Info.MessagesDropped, 1)
	if pk.FixedHeader.Qos > 0 {
		h.loseQoS1(cl, topic, "max-user-queue")
	}
	return false
}

// OnPublished comes when a publication was handed to all of its subscribers.
func (h *flow) OnPublished(_ *mqtt.Client, pk packets.Packet) { h.underway.end(pk) }

// addUnread charges a connection for what waits to be sent to it in mochi's queue, or gives it back.
// What is charged is what is given back, as no subscriber is offered topic aliases and mochi's own
// window is off. Nothing was charged for wills and retained messages, which are bounded where they
// are sent.
func (c *conn) addUnread(size int64) {
	c.addTo(&c.unacked.unread, size)
}

// addBuffered is addUnread for its sendBuffer, which charges nothing before it knows the user.
func (c *conn) addBuffered(size int64) {
	c.addTo(&c.unacked.buffer, size)
}

func (c *conn) addTo(charged *int64, size int64) {
	of := c.share
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if c.unacked.over {
		return
	}
	size = max(size, -*charged)
	*charged += size
	of.unread += size
}

// unreadTooMuch is holdsTooMuch for what waits to be sent.
func (c *conn) unreadTooMuch(l Limits) bool {
	of := c.share
	of.mu.Lock()
	defer of.mu.Unlock()
	most := int64(l.UserQueue)
	return of.unread >= most && c.unacked.unread+c.unacked.buffer >= most/int64(l.UserClients)
}
