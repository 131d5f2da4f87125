package broker

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// flow is the hook that keeps messages from being lost, reordered or dropped
// between a publisher's packet and a subscriber's socket.
type flow struct {
	mqtt.HookBase
	server  *mqtt.Server
	access  *access
	limits  Limits
	counts  *counters
	store   *store       // nil: memory only
	persist *persistence // likewise
	direct  *direct

	underway underway

	// sequence numbers messages in Created, by which mochi orders what it
	// sends again; a second is too coarse. It starts at the time in
	// nanoseconds, beyond what a former run has reached.
	sequence atomic.Int64

	turns idTurns // to connect and to end

	mu    sync.Mutex
	spare []*mqtt.Client // inline clients to publish with, one goroutine each
}

func (h *flow) ID() string { return "flow" }

func (h *flow) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnPacketRead, mqtt.OnPacketProcessed, mqtt.OnDisconnect, mqtt.OnSessionEstablish,
		mqtt.OnPublish, mqtt.OnPublished, mqtt.OnQosPublish, mqtt.OnPacketEncode, mqtt.OnPublishDropped, mqtt.OnQosDropped, mqtt.OnPacketSent, mqtt.OnSessionEstablished,
	}, b) >= 0
}

// OnPublish delivers a QoS 1 message to all sessions before it is acknowledged:
// mochi acknowledges first, and a broker that is killed in between has lost an
// acknowledged message. Therefore the message is published a second time, by
// an inline client of the same name, and the packet itself is only answered.
func (h *flow) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline {
		pk.Created = h.sequence.Add(1)
		h.underway.begin(pk, nil)
		return pk, nil
	}
	if pk.FixedHeader.Qos > 0 {
		h.reserve(cl, pk.PacketID)
	}
	if h.direct.pass(cl, &pk) {
		return pk, packets.CodeSuccessIgnore
	}
	h.counts.received.Add(1)
	called := h.direct.call(cl, &pk)
	if pk.FixedHeader.Qos == 0 {
		pk.Created = h.sequence.Add(1)
		h.underway.begin(pk, called)
		return pk, nil
	}
	giveTurnOf(cl) // this may wait for subscribers
	failed := h.store.failures()
	h.inject(cl, pk, called)
	if h.store.failures() != failed {
		// Unacknowledged, so that the publisher keeps it.
		return pk, packets.ErrRejectPacket
	}
	return pk, packets.CodeSuccessIgnore
}

// reserve keeps the packet id of a publication that is not acknowledged yet from
// being given to a delivery to the same client: the acknowledgement takes that
// place in mochi's table next.
func (h *flow) reserve(cl *mqtt.Client, id uint16) {
	stepAside(cl, id)
	if cl.State.Inflight.Set(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: id}) {
		atomic.AddInt64(&h.server.Info.Inflight, 1) // mochi counts it down when it is acknowledged
	}
}

// inject publishes a packet in the name of a client. Those who were called with it get it no more.
func (h *flow) inject(origin *mqtt.Client, pk packets.Packet, called []*mqtt.Client) {
	h.underway.begin(pk, called)
	defer h.underway.end(pk) // if it does not get that far
	in := h.borrow()
	defer h.giveBack(in)
	in.ID = origin.ID
	in.Properties.Username = origin.Properties.Username // who is charged
	in.Properties.ProtocolVersion = origin.Properties.ProtocolVersion
	pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = 0, false // resolved already
	if err := h.server.InjectPacket(in, pk); err != nil {
		h.access.logRefusal(origin, "publication failed", pk.TopicName, "error", err)
		return
	}
	// InjectPacket has counted what was counted when it was read.
	atomic.AddInt64(&h.server.Info.PacketsReceived, -1)
	atomic.AddInt64(&h.server.Info.MessagesReceived, -1)
}

func (h *flow) borrow() *mqtt.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.spare); n > 0 {
		in := h.spare[n-1]
		h.spare = h.spare[:n-1]
		return in
	}
	return h.server.NewClient(nil, mqtt.LocalListener, "", true)
}

func (h *flow) giveBack(in *mqtt.Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spare = append(h.spare, in)
}

// sendWill publishes the will of a client for which mochi cannot do it.
func (h *flow) sendWill(cl *mqtt.Client) {
	if atomic.LoadUint32(&cl.Properties.Will.Flag) != 0 {
		h.publishWill(cl, cl.Properties.Will)
	}
}

// publishWill publishes a will that access has not charged yet.
func (h *flow) publishWill(cl *mqtt.Client, w mqtt.Will) {
	w = h.access.chargeWill(cl, w)
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: w.Qos, Retain: w.Retain},
		TopicName:   w.TopicName,
		Payload:     w.Payload,
		Properties:  packets.Properties{User: w.User},
		PacketID:    uint16(min(w.Qos, 1)),
	}
	if !h.direct.pass(cl, &pk) {
		h.inject(cl, pk, h.direct.call(cl, &pk))
	}
}

// publishesWill publishes the will of a client of locks in mochi's place, and reports whether it has. If wills
// went another way than what their clients ask, one could come after what the client asks when it is back.
func (h *flow) publishesWill(cl *mqtt.Client, w mqtt.Will) bool {
	if owner, family := h.direct.ownerOf([]byte(w.TopicName)); owner == nil || family != toServer || w.Retain {
		return false
	}
	giveTurnOf(cl) // of a packet that ended its connection: a will may wait for subscribers
	h.publishWill(cl, w)
	return true
}

// OnPacketRead keeps the packet ids of the two directions apart. mochi has one
// table for both: a packet of the client's with the id of a delivery that it has
// not acknowledged yet would delete that delivery (PUBLISH) or be refused
// (SUBSCRIBE, UNSUBSCRIBE). So the delivery steps aside while the packet is
// processed.
func (h *flow) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if c := connOf(cl); c != nil && pk.FixedHeader.Type != packets.Connect { // for which letIn does that
		if c.begin(); !c.takeTurn() {
			return pk, packets.ErrRejectPacket
		}
	}
	switch pk.FixedHeader.Type {
	case packets.Publish, packets.Subscribe, packets.Unsubscribe, packets.Pubrec, packets.Pubrel:
		stepAside(cl, pk.PacketID)
	case packets.Pubcomp:
		pk.FixedHeader.Type, pk.PacketID = packets.Puback, 0 // of nothing
	case packets.Puback:
		if c := connOf(cl); c != nil {
			c.acknowledged(cl, pk.PacketID)
		}
	}
	return pk, nil
}

func stepAside(cl *mqtt.Client, id uint16) {
	c := connOf(cl)
	if c == nil {
		return
	}
	if d, ok := cl.State.Inflight.Get(id); ok && d.FixedHeader.Type == packets.Publish {
		if c.shadowed == nil {
			c.aside.Lock()
		}
		cl.State.Inflight.Delete(id)
		shadowed := d // or d would be allocated for each packet
		c.shadowed = &shadowed
	}
}

func (h *flow) OnPacketProcessed(cl *mqtt.Client, pk packets.Packet, _ error) {
	unshadow(cl)
	c := connOf(cl)
	if c == nil {
		return
	}
	switch pk.FixedHeader.Type {
	case packets.Puback:
		c.sendNext(cl, pk.PacketID)
	case packets.Publish:
		if c.charges() && h.direct.isInbox([]byte(pk.TopicName)) {
			c.readCost += more(pk.Payload)
		}
		if h.direct.isOfLocks([]byte(pk.TopicName)) {
			c.published(func() int { return h.access.sessions.usages.subscriptions(cl) })
			return
		}
	}
	c.processed()
}

// OnDisconnect waits for its turn, too, until serve ends, if the session ends with its
// connection: mochi removes what stands under the client id, which may be the session of
// a connection that has begun meanwhile. That would be subscribed and never get anything.
func (h *flow) OnDisconnect(cl *mqtt.Client, _ error, expire bool) {
	unshadow(cl)
	c := connOf(cl)
	if c == nil {
		return
	}
	c.giveTurn() // its last packet may have been refused
	c.sayLast()
	if expire && c.ended == nil {
		c.ended = h.turns.take(cl.ID)
	}
}

func unshadow(cl *mqtt.Client) {
	c := connOf(cl)
	if c == nil || c.shadowed == nil {
		return
	}
	if _, taken := cl.State.Inflight.Get(c.shadowed.PacketID); !taken {
		cl.State.Inflight.Set(*c.shadowed)
	}
	c.shadowed = nil
	c.aside.Unlock()
}

// OnQosPublish is called in the publisher's goroutine, when a message has got
// its packet id and before it goes to the subscriber's queue: the place to
// number it, and to make the publisher wait for a subscriber that lags behind.
// A repetition after a reconnection comes in the subscriber's own goroutine,
// which must not wait for itself.
func (h *flow) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if pk.FixedHeader.Type != packets.Publish {
		return
	}
	if outlives(cl) && !pk.FixedHeader.Dup {
		pk.Created = h.sequence.Add(1) // wills and retained messages bring older ones
		cl.State.Inflight.Set(pk)
		if cl.IsTakenOver() {
			h.forward(cl, pk)
			return
		}
	}
	c := connOf(cl)
	if c == nil {
		return
	}
	c.pending.Add(1)
	defer c.holds(pk) // afterwards: it cannot be acknowledged while it waits here
	if !pk.FixedHeader.Dup && h.lags(cl, c) {
		h.await(cl, c)
	}
}

// forward delivers a message whose session was taken over after mochi had chosen
// the former connection. The new one may have copied it with the other messages
// that wait, or not any more; twice is better than never.
func (h *flow) forward(former *mqtt.Client, pk packets.Packet) {
	for deadline := time.Now().Add(h.limits.WriteTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		successor, ok := h.server.Clients.Get(former.ID)
		if !ok || successor == former || successor.IsTakenOver() {
			continue // it is being made
		}
		if !outlives(successor) {
			return // it has begun a new session
		}
		id, err := successor.NextPacketID()
		if err != nil {
			break
		}
		pk.PacketID = uint16(id)
		if successor.State.Inflight.Set(pk) {
			atomic.AddInt64(&h.server.Info.Inflight, 1)
		}
		if successor.IsTakenOver() {
			continue
		}
		if h.persist != nil {
			h.persist.OnQosPublish(successor, pk, 0, 0)
		}
		if c := connOf(successor); c != nil {
			c.pending.Add(1)
			c.holds(pk)
			_ = successor.WritePacket(pk) // it waits in the session if that fails
		}
		return
	}
	atomic.AddInt64(&h.server.Info.InflightDropped, 1)
	h.access.limited("write-timeout", string(former.Properties.Username), former.Net.Remote)
	h.access.tellLoss(former, "write-timeout", "message dropped: its session could not be resumed in time", "topic", pk.TopicName)
}

func (h *flow) lags(cl *mqtt.Client, c *conn) bool {
	return !cl.Closed() && (c.pending.Load() >= h.limits.highWater() || cl.State.Inflight.Len() >= h.limits.Queue-h.limits.Queue/8 || c.holdsTooMuch(h.limits))
}

// OnPacketEncode is called when a packet has left the subscriber's queue. mochi
// starts that queue before the CONNACK is out, at which clients give up, and
// before older messages were sent again, so new ones wait here for both.
func (h *flow) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	c := connOf(cl)
	if c == nil {
		return pk
	}
	if pk.FixedHeader.Type != packets.Disconnect && !c.buffer.idle() { // the last packet, of whoever ends it
		if pk.FixedHeader.Type != packets.Publish || pk.Ignore { // of the goroutine that reads, whose turn it is
			c.giveTurn()
		}
		c.buffer.await()
	}
	if pk.Mods.MaxSize > 0 && queued(cl) == 0 {
		flushBuffer(cl) // if this packet is too long, it will not
	}
	if pk.FixedHeader.Type != packets.Publish {
		return pk
	}
	if !pk.Ignore { // see sendNext
		c.takenMessages.Add(1)
		c.takenBytes.Add(weight(pk))
		if !pk.FixedHeader.Dup {
			c.addUnread(-queuedSize(pk))
		}
	}
	if !pk.FixedHeader.Dup {
		<-c.greeted
	}
	if !c.window.enter(pk) {
		flushBuffer(cl) // this packet will not
		pk.FixedHeader.Type = held
		return pk
	}
	if pk.FixedHeader.Qos > 0 {
		c.pending.Add(-1)
		c.progress.Add(progressOf(pk))
	}
	return pk
}

func (h *flow) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	if c := connOf(cl); c != nil && pk.FixedHeader.Type == packets.Connack {
		renumber(cl)
	}
}

// OnQosDropped is called for a message that has expired, or whose session ends.
func (h *flow) OnQosDropped(cl *mqtt.Client, pk packets.Packet) {
	if c := connOf(cl); c != nil {
		c.lets(pk)
	}
}

// OnPublishDropped is called when the subscriber's queue is full. What was published at
// QoS 0 is lost. Whoever loses a QoS 1 message must know, so it loses its connection: also
// an observer, which gets those at QoS 0.
func (h *flow) OnPublishDropped(cl *mqtt.Client, pk packets.Packet) {
	if c := connOf(cl); c != nil {
		c.addUnread(-queuedSize(pk))
	}
	h.access.limited("max-unsent", string(cl.Properties.Username), cl.Net.Remote)
	if pk.FixedHeader.Qos > 0 {
		h.loseQoS1(cl, pk.TopicName, "max-unsent")
	}
}

// loseQoS1 is called when what was published at QoS 1 cannot be queued, because of a limit.
func (h *flow) loseQoS1(cl *mqtt.Client, topic, limit string) {
	sub := h.server.Topics.Subscribers(topic).Subscriptions[cl.ID]
	if sub.Qos == 0 && !h.access.users.observes(cl.Properties.Username) {
		return
	}
	h.access.tellLoss(cl, limit, "client disconnected: its queue is full")
	cl.Stop(packets.ErrPendingClientWritesExceeded)
}
