package broker

import (
	"bytes"
	"encoding/binary"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// direct is the short way of lock messages, which are what is published, and not retained, at
// QoS 0 to the inbox of a participant, and to those who serve clients of locks, or by them: the
// goroutine that reads one from its publisher also writes it to the subscribers, as far as their
// connections take it at once, and calls those in the process that are attached. On mochi's way it
// is copied three times, looked up in a tree, and handed to another goroutine for each of them.
// What is published at QoS 1 goes this way, too, if all of its subscribers have QoS 0.
//
// So what a client asks costs its own turn, up to the server's decision whether to read it, and no
// queue is filled with it in which others wait.
//
// A topic goes the one way or the other as a whole, so that its messages keep their order
// until that changes: mochi has those with a subscriber of MQTT 5 or a shared subscription, inboxes
// with a session without a connection, and requests of which somebody wants those at QoS 1 so. Of an
// inbox mochi has single messages, too: at QoS 1 where somebody wants that, or while a subscriber
// ends. mochi's hooks tell when the subscribers of a topic may have changed. A server of clients in
// the process is called with all that they ask, whoever else reads it: see call.
type direct struct {
	mqtt.HookBase
	server *mqtt.Server
	access *access
	counts *counters
	limit  int    // of a packet, in bytes
	prefix []byte // of all topics of participants

	ways ways
}

func (h *direct) ID() string { return "direct" }

func (h *direct) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnSessionEstablished, mqtt.OnDisconnect, mqtt.OnSubscribed, mqtt.OnUnsubscribed}, b) >= 0
}

// pass sends a publication on, unless that is for mochi to do. One at QoS 1 goes this way if QoS 0
// is enough for its subscribers.
func (h *direct) pass(from *mqtt.Client, pk *packets.Packet) bool {
	topic := []byte(pk.TopicName)
	if pk.FixedHeader.Retain {
		return false
	}
	w := h.wayOf(topic)
	return w != nil && (pk.FixedHeader.Qos == 0 || !w.qos1) && h.send(from, w, topic, pk.Payload, nil)
}

// publish sends a message at QoS 0 on, which its publisher has as a frame. It reports false if
// that is for mochi to do, and to refuse.
func (h *direct) publish(from *mqtt.Client, topic, payload, frame []byte) bool {
	w := h.wayOf(topic)
	return w != nil && h.send(from, w, topic, payload, frame)
}

// clientBytes bounds what goes past mochi to and from clients: many times what they ask and are
// answered. mochi has one copy of what is longer for all who do not read it.
const clientBytes = 16 << 10

// send does that. It makes the frame if it is nil.
func (h *direct) send(from *mqtt.Client, w *way, topic, payload, frame []byte) bool {
	if w.mochi || w.family != toInbox && len(payload) > clientBytes || !h.access.mayPublish(from, w.topic) {
		return false
	}
	for _, cl := range w.to {
		if cl.Closed() && w.family == toInbox {
			return false
		}
	}
	h.counts.received.Add(1)
	for _, cl := range w.to {
		c := connOf(cl)
		if cl.Closed() || !h.access.OnACLCheck(cl, w.topic, false) {
			continue
		}
		if f := c.outlet.attached.Load(); f != nil {
			(*f)(w.topic, slices.Clone(payload))
		} else {
			if frame == nil {
				frame = appendPublish(nil, topic, payload)
			}
			if !h.write(c, cl, frame) {
				continue
			}
			atomic.AddInt64(&h.server.Info.BytesSent, int64(len(frame)))
		}
		atomic.AddInt64(&h.server.Info.PacketsSent, 1)
		atomic.AddInt64(&h.server.Info.MessagesSent, 1)
	}
	return true
}

// call hands what a client asks, and mochi sends to others, to the servers in the process, which mochi
// is to leave out: it would stand in a queue with what all other clients ask, and come after what the
// client asks when nobody else reads it any more. What is retained they get of mochi.
func (h *direct) call(from *mqtt.Client, pk *packets.Packet) (called []*mqtt.Client) {
	if pk.FixedHeader.Retain {
		return nil
	}
	topic := []byte(pk.TopicName)
	w := h.wayOf(topic)
	if w == nil || w.family != toServer || !h.access.mayPublish(from, w.topic) {
		return nil
	}
	for _, cl := range w.called {
		if f := connOf(cl).outlet.attached.Load(); f != nil && !cl.Closed() && h.access.OnACLCheck(cl, w.topic, false) {
			(*f)(w.topic, slices.Clone(pk.Payload))
			atomic.AddInt64(&h.server.Info.PacketsSent, 1)
			atomic.AddInt64(&h.server.Info.MessagesSent, 1)
			called = append(called, cl)
		}
	}
	return called
}

// write sends a frame to a subscriber, unless that has left too much unread.
func (h *direct) write(c *conn, cl *mqtt.Client, frame []byte) bool {
	switch c.outlet.send(c, cl, frame, &h.access.limits) {
	case goesOut:
		return true
	case beyondUnsent:
		h.access.limited("max-unsent", string(cl.Properties.Username), cl.Net.Remote)
	case beyondUserQueue:
		h.access.limited("max-user-queue", string(cl.Properties.Username), cl.Net.Remote)
	}
	atomic.AddInt64(&h.server.Info.MessagesDropped, 1)
	return false
}

// isInbox reports whether a topic is {prefix}{domain}/node/….
func (h *direct) isInbox(topic []byte) bool {
	below, ok := bytes.CutPrefix(topic, h.prefix)
	if !ok {
		return false
	}
	_, family, ok := bytes.Cut(below, []byte{'/'})
	return ok && bytes.HasPrefix(family, []byte("node/"))
}

// isOfLocks reports whether a topic is {prefix}{domain}/lock/… or an inbox.
func (h *direct) isOfLocks(topic []byte) bool {
	below, ok := bytes.CutPrefix(topic, h.prefix)
	if !ok {
		return false
	}
	_, family, _ := bytes.Cut(below, []byte{'/'})
	return bytes.HasPrefix(family, []byte("node/")) || bytes.HasPrefix(family, []byte("lock/"))
}

// ownerOf is the user whose inbox a topic is, {prefix}{domain}/node/{owner}/…, or as whom it speaks
// with those who serve clients, {prefix}{domain}/lock/{topic}/client/{owner}/…; nil: it is neither.
func (h *direct) ownerOf(topic []byte) (owner []byte, to family) {
	below, ok := bytes.CutPrefix(topic, h.prefix)
	if !ok {
		return nil, 0
	}
	_, below, _ = bytes.Cut(below, []byte{'/'})
	rest, ok := bytes.CutPrefix(below, []byte("node/"))
	if !ok {
		if rest, ok = bytes.CutPrefix(below, []byte("lock/")); !ok {
			return nil, 0
		}
		_, rest, _ = bytes.Cut(rest, []byte{'/'})
		if rest, ok = bytes.CutPrefix(rest, []byte("client/")); !ok {
			return nil, 0
		}
		to = ofClient
	}
	owner, what, ok := bytes.Cut(rest, []byte{'/'})
	if !ok {
		return nil, 0
	}
	if to == ofClient && string(what) == "request" {
		to = toServer
	}
	if bytes.IndexByte(owner, '%') >= 0 {
		if name, err := url.PathUnescape(string(owner)); err == nil {
			return []byte(name), to
		}
	}
	return owner, to
}

// take sends on what b begins with, as long as that is whole messages for it, and returns the
// rest. It is called where a packet begins, by the goroutine that reads the connection.
func (h *direct) take(c *conn, b []byte) []byte {
	cl := c.client.Load()
	if cl == nil || cl.Properties.ProtocolVersion >= 5 || !c.established() || c.turns != nil {
		return b // observers and clients may send none, and are to have turns
	}
	for taken := false; ; taken = true {
		c.begin()
		n := h.takeOne(c, cl, b)
		if n == 0 {
			if taken {
				c.heard()
			}
			return b
		}
		b = b[n:]
		c.published(func() int { return h.access.sessions.usages.subscriptions(cl) })
		c.yield(packets.Publish, n)
	}
}

// takeOne returns the length of the message that b begins with, if it has sent it on; else 0.
func (h *direct) takeOne(c *conn, cl *mqtt.Client, b []byte) int {
	frame, topic, payload := wholePublish(b)
	if frame == nil || len(frame) > h.limit || cl.Closed() || bytes.Count(topic, []byte{'/'}) >= c.scanner.Limits.Levels || !h.publish(cl, topic, payload, frame) {
		return 0
	}
	if c.charges() {
		c.readCost += more(payload)
	}
	atomic.AddInt64(&h.server.Info.PacketsReceived, 1)
	atomic.AddInt64(&h.server.Info.MessagesReceived, 1)
	atomic.AddInt64(&h.server.Info.BytesReceived, int64(len(frame)))
	return len(frame)
}

// envelopeStart begins each message of those that go to a participant as one. What repairs a
// loss has samples in it, and begins otherwise, as they do.
var envelopeStart = []byte{0x98, 1, 1}

// more is what the messages of a payload for an inbox cost beyond the first: whoever receives
// them has the work of each.
func more(payload []byte) float64 {
	if len(payload) <= len(envelopeStart) {
		return 0
	}
	return float64(bytes.Count(payload[len(envelopeStart):], envelopeStart))
}

// wholePublish takes b apart if it begins with a PUBLISH of MQTT 3.1.1 at QoS 0, not retained,
// as there is no doubt about (§3.3). Else frame is nil.
func wholePublish(b []byte) (frame, topic, payload []byte) {
	if len(b) < 2 || b[0] != packets.Publish<<4 {
		return nil, nil, nil
	}
	length, n := binary.Uvarint(b[1:]) // §2.2.3 counts as Go does
	if n <= 0 || n > 4 || n > 1 && b[n] == 0 || length < 2 || length > uint64(len(b)-1-n) {
		return nil, nil, nil
	}
	frame = b[:1+n+int(length)]
	body := frame[1+n:]
	size := int(binary.BigEndian.Uint16(body))
	if size == 0 || 2+size > len(body) || !utf8.Valid(body[2:2+size]) {
		return nil, nil, nil
	}
	return frame, body[2 : 2+size], body[2+size:]
}

// appendPublish makes such a PUBLISH.
func appendPublish[T string | []byte](b []byte, topic T, payload []byte) []byte {
	b = binary.AppendUvarint(append(b, packets.Publish<<4), uint64(2+len(topic)+len(payload)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	return append(append(b, topic...), payload...)
}

// established reports whether older messages were sent to a session again, so that new ones may be.
func (c *conn) established() bool {
	select {
	case <-c.greeted:
		return true
	default:
		return false
	}
}

// heard puts off the end of a keepalive, as mochi does when it reads a packet.
func (c *conn) heard() {
	if now := time.Now(); c.silence > 0 && !c.gone.Load() && now.Sub(c.renewed) > c.silence/8 {
		c.renewed = now
		_ = c.Conn.SetReadDeadline(now.Add(c.silence))
	}
}
