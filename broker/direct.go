package broker

import (
	"bytes"
	"encoding/binary"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// direct is the short way of lock messages, which are what is published at QoS 0 and not
// retained to the inbox of a participant: the goroutine that reads one from its publisher also
// writes it to the subscribers, as far as their connections take it at once, and calls those in
// the process that are attached. On mochi's way it is copied three times, looked up in a tree,
// and handed to another goroutine for each of them.
//
// A topic goes the one way or the other as a whole, so that its messages keep their order
// until that changes: mochi has those with a subscriber of MQTT 5, a shared subscription or a
// session without a connection. Its hooks tell when there may be others.
type direct struct {
	mqtt.HookBase
	server *mqtt.Server
	access *access
	counts *counters
	limit  int    // of a packet, in bytes
	prefix []byte // of all topics of participants

	changes atomic.Uint64 // of subscriptions and connections that may matter to any topic
	mu      sync.RWMutex
	ways    map[string]*way           // by topic, as of changes
	own     map[string]*atomic.Uint64 // changes that matter to the inbox of a user, by its name
}

// maxWays bounds the topics whose subscribers are remembered.
const maxWays = 4096

// way is to whom the messages of a topic go.
type way struct {
	topic string
	as    uint64         // of changes
	to    []*mqtt.Client // with a connection, by MQTT 3.1.1
	mochi bool           // not by us
}

func (h *direct) ID() string { return "direct" }

func (h *direct) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnSessionEstablished, mqtt.OnDisconnect, mqtt.OnSubscribed, mqtt.OnUnsubscribed}, b) >= 0
}

// OnSessionEstablished comes when mochi finds the new connection under the client's id.
func (h *direct) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) { h.changed(cl) }
func (h *direct) OnDisconnect(cl *mqtt.Client, _ error, _ bool)          { h.changed(cl) }

// OnSubscribed comes before the SUBACK.
func (h *direct) OnSubscribed(cl *mqtt.Client, _ packets.Packet, _ []byte) { h.changed(cl) }
func (h *direct) OnUnsubscribed(cl *mqtt.Client, _ packets.Packet)         { h.changed(cl) }

// changed has the subscribers of a topic looked up again. Who may read its own inbox only changes no
// other: else hundreds that subscribe and unsubscribe without pause would cost every lock message a
// search.
func (h *direct) changed(cl *mqtt.Client) {
	if h.access.users == nil {
		h.changes.Add(1)
		return
	}
	switch a, known := h.access.users.lookup(cl.Properties.Username); {
	case !known: // it may read nothing
	case a.role == Admin:
		h.changes.Add(1)
	default:
		h.changesOf(string(cl.Properties.Username)).Add(1)
	}
}

func (h *direct) changesOf(user string) *atomic.Uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.own == nil {
		h.own = map[string]*atomic.Uint64{}
	}
	if h.own[user] == nil {
		h.own[user] = new(atomic.Uint64)
	}
	return h.own[user]
}

// publish sends a message on, which its publisher may have as a frame. It reports false if
// that is for mochi to do, and to refuse.
func (h *direct) publish(from *mqtt.Client, topic, payload, frame []byte) bool {
	if !h.isInbox(topic) {
		return false
	}
	w := h.wayOf(topic)
	if w.mochi || !h.access.mayPublish(from, w.topic) {
		return false
	}
	for _, cl := range w.to {
		if cl.Closed() {
			return false
		}
	}
	h.counts.received.Add(1)
	for _, cl := range w.to {
		c := connOf(cl)
		if !h.access.OnACLCheck(cl, w.topic, false) {
			continue
		}
		if f := c.outlet.attached.Load(); f != nil {
			(*f)(w.topic, slices.Clone(payload))
		} else {
			if frame == nil {
				frame = appendPublish(nil, topic, payload)
			}
			if !c.outlet.send(c, cl, frame, &h.access.limits) {
				h.access.limited("max-unsent", string(cl.Properties.Username), cl.Net.Remote)
				atomic.AddInt64(&h.server.Info.MessagesDropped, 1)
				continue
			}
			atomic.AddInt64(&h.server.Info.BytesSent, int64(len(frame)))
		}
		atomic.AddInt64(&h.server.Info.PacketsSent, 1)
		atomic.AddInt64(&h.server.Info.MessagesSent, 1)
	}
	return true
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

// ownerOf is the user whose inbox a topic is.
func (h *direct) ownerOf(topic []byte) []byte {
	_, below, _ := bytes.Cut(topic[len(h.prefix):], []byte("/node/"))
	owner, _, _ := bytes.Cut(below, []byte{'/'})
	if bytes.IndexByte(owner, '%') >= 0 {
		if name, err := url.PathUnescape(string(owner)); err == nil {
			return []byte(name)
		}
	}
	return owner
}

// wayOf looks up the subscribers of a topic, if they are not known.
func (h *direct) wayOf(topic []byte) *way {
	as := h.changes.Load()
	h.mu.RLock()
	w := h.ways[string(topic)]
	if h.access.users != nil {
		as += h.access.users.changes.Load()
		if own := h.own[string(h.ownerOf(topic))]; own != nil {
			as += own.Load()
		}
	}
	h.mu.RUnlock()
	if w == nil || w.as != as {
		w = h.look(string(topic), as)
		h.mu.Lock()
		if h.ways == nil || len(h.ways) >= maxWays {
			h.ways = map[string]*way{}
		}
		h.ways[w.topic] = w
		h.mu.Unlock()
	}
	return w
}

func (h *direct) look(topic string, as uint64) *way {
	w := &way{topic: topic, as: as}
	found := h.server.Topics.Subscribers(topic)
	w.mochi = len(found.InlineSubscriptions) > 0
	for _, group := range found.Shared {
		for id := range group {
			w.mochi = w.mochi || h.reader(id, topic) != nil
		}
	}
	for id := range found.Subscriptions {
		cl := h.reader(id, topic)
		if cl == nil {
			continue
		}
		if cl.Properties.ProtocolVersion >= 5 || cl.Closed() || connOf(cl) == nil {
			w.mochi = true
		}
		w.to = append(w.to, cl)
	}
	return w
}

// reader returns a client that may read a topic; nil: there is none of that id, or it may not, and
// has no say in the way of a message.
func (h *direct) reader(id, topic string) *mqtt.Client {
	cl, ok := h.server.Clients.Get(id)
	if !ok || h.access.users != nil && !h.access.mayRead(cl, topic) {
		return nil
	}
	return cl
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
