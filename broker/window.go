package broker

import (
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// window holds back what an MQTT 5 client may not be sent yet, by its Receive Maximum.
// mochi's own way takes a lock for reading twice, one within the other: with a publisher
// in between, neither comes to an end, nor whoever publishes to that client later. And for
// each packet of the client, of two bytes, it goes through all that is unacknowledged. So
// mochi is told of no maximum.
type window struct {
	mu      sync.Mutex
	size    int                 // 0: as many as there are packet ids
	sent    map[uint16]struct{} // not acknowledged yet
	waiting []uint16            // to be sent, in order
	handing bool                // the client's reading goroutine is sending some of these
}

// held is the type that a publication gets which must wait: mochi sends no such packet.
const held = packets.Reserved

// open takes the Receive Maximum of a client over from mochi.
func (w *window) open(cl *mqtt.Client) {
	if most := cl.Properties.Props.ReceiveMaximum; cl.Properties.ProtocolVersion == 5 && most > 0 && most < maxQueue {
		w.size, w.sent = int(most), map[uint16]struct{}{}
	}
	cl.Properties.Props.ReceiveMaximum = 0
	cl.State.Inflight.ResetSendQuota(0)
}

// enter reports whether a publication may be sent now. If not it is next will send it.
func (w *window) enter(pk packets.Packet) bool {
	if w.size == 0 || pk.FixedHeader.Qos == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.sent[pk.PacketID]
	switch {
	case known:
	case pk.FixedHeader.Dup: // of a session that is resumed, before the client is heard
		w.sent[pk.PacketID] = struct{}{}
	case w.handing || len(w.waiting) > 0 || len(w.sent) >= w.size:
		w.waiting = append(w.waiting, pk.PacketID)
		return false
	default:
		w.sent[pk.PacketID] = struct{}{}
	}
	return true
}

// acknowledged ends the turn of a publication.
func (w *window) acknowledged(id uint16) {
	if w.size == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, id)
}

// next returns the packet id of a publication that may be sent now, until there is none.
func (w *window) next() (id uint16, ok bool) {
	if w.size == 0 {
		return 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handing = len(w.waiting) > 0 && len(w.sent) < w.size; !w.handing {
		return 0, false
	}
	id, w.waiting = w.waiting[0], w.waiting[1:]
	w.sent[id] = struct{}{}
	return id, true
}

// sendNext sends what an acknowledgement lets go, in the client's reading goroutine.
func (c *conn) sendNext(cl *mqtt.Client, acknowledged uint16) {
	c.window.acknowledged(acknowledged)
	for {
		id, ok := c.window.next()
		if !ok {
			return
		}
		pk, there := cl.State.Inflight.Get(id)
		if !there || pk.FixedHeader.Type != packets.Publish { // it has expired
			c.window.acknowledged(id)
			c.pending.Add(-1)
			continue
		}
		pk.Ignore = true // it has left the queue before; mochi does not look at that here
		if cl.WritePacket(pk) != nil {
			return
		}
	}
}
