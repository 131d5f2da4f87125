package broker

import (
	"cmp"
	"slices"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// formerMayTake is how long a connection may take for its last packet when another one takes
// its session over: a device that comes back over another network does not wait until the
// dead connection has had its WriteTimeout.
const formerMayTake = 200 * time.Millisecond

// OnSessionEstablish lets one connection of a client id at a time into mochi's
// takeover, until it is complete: of two at once, one would inherit nothing. The former
// connection may be processing its last packet still, while a delivery steps aside, which
// the session is to inherit, too.
func (h *flow) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	c := connOf(cl)
	if c == nil {
		return
	}
	c.giveTurn() // the former connection may need it
	c.window.open(cl)
	c.whenGreeted(h.turns.take(cl.ID))
	if former, ok := h.server.Clients.Get(cl.ID); ok && connOf(former) != nil {
		c.former = connOf(former)
		c.former.giveUpAfter(formerMayTake)
		c.former.aside.Lock()
		c.former.aside.Unlock() //nolint:staticcheck // it was awaited
	}
}

// OnSessionEstablished comes when everything that waited was sent again.
func (h *flow) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	chargeHalves(cl)
	if c := connOf(cl); c != nil {
		if c.former != nil {
			h.direct.changed(cl) // or what comes meanwhile would go to the former connection, which is closed
			c.awaitFormer()
		}
		c.greet()
	}
}

// awaitFormer waits until the will of the connection whose session this one has taken over was sent,
// but not for long: it must not come after what the client says now.
func (c *conn) awaitFormer() {
	timeout := time.NewTimer(formerMayTake)
	defer timeout.Stop()
	select {
	case <-c.former.said:
	case <-timeout.C:
	}
	c.former = nil
}

// chargeHalves takes the exchanges at QoS 2 that a client has left unfinished from the room that a
// connection has for them: mochi gives each the whole, and keeps those of the session.
func chargeHalves(cl *mqtt.Client) {
	if cl.State.Inflight.Len() == 0 {
		return
	}
	for _, pk := range cl.State.Inflight.GetAll(false) {
		if pk.FixedHeader.Type == packets.Pubrec {
			cl.State.Inflight.DecreaseReceiveQuota()
		}
	}
}

// renumber puts what waits for a returning client in order, before it is sent
// again: mochi sorts by the lowest 16 bits of Created. At this moment nothing is
// acknowledged, so no packet id changes hands.
func renumber(cl *mqtt.Client) {
	waiting := cl.State.Inflight.GetAll(false)
	slices.SortStableFunc(waiting, func(a, b packets.Packet) int { return cmp.Compare(a.Created, b.Created) })
	for i, pk := range waiting {
		pk.Created = int64(i)
		cl.State.Inflight.Set(pk)
	}
}
