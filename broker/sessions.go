package broker

import (
	"bytes"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// sessions is the hook that decides which sessions outlive their connection, and for how
// long, and that ends those to which nobody has come back. mochi's own expiry leaves the
// subscriptions behind, for whoever comes next under that client id, and may take a
// session away from a client that is just coming back: it is kept from acting, see bound.
type sessions struct {
	mqtt.HookBase
	b      *Broker
	usages usages

	willMu sync.Mutex
	wills  map[string]delayedWill // by client id; see willdelay.go
}

func newSessions(b *Broker) *sessions {
	return &sessions{b: b, wills: map[string]delayedWill{}, usages: usages{limits: b.cfg.Limits, byUser: map[string]*usage{}}}
}

func (h *sessions) ID() string { return "sessions" }

func (h *sessions) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnSessionEstablish, mqtt.OnSessionEstablished, mqtt.OnDisconnect, mqtt.OnPacketRead, mqtt.OnPacketEncode,
		mqtt.OnSubscribe, mqtt.OnUnsubscribe, mqtt.OnSubscribed, mqtt.OnUnsubscribed, mqtt.OnQosPublish, mqtt.OnQosDropped,
	}, b) >= 0
}

// connack is what the CONNACK says that mochi does not know of.
type connack struct {
	refused    packets.Code // in place of mochi's reason, if it has a code
	tellExpiry bool         // that the session expires sooner than the client has asked for
}

// enter charges a connection to the user that it has proven to be, before mochi spends 70 KB on
// it, and reports whether the user has room for it.
func (h *sessions) enter(c *conn) bool {
	if h.b.cfg.Users == nil { // each has what a user has
		c.share, c.departed = &share{}, c.endUnacked
		c.buffer.charges(c.addBuffered)
		return true
	}
	user, most, observes := string(c.user), h.b.cfg.Limits.UserClients, h.b.cfg.Users.observes(c.user)
	if observes {
		most = (most + 3) / 4
	}
	if !h.usages.connect(user, clientID(c.user, c.connect.ID), most) {
		h.b.counts.refusedConnect.Add(1)
		h.b.limited("max-user-clients", user, c.RemoteAddr().String())
		return false
	}
	g := c.guest()
	if g == nil { // in the process are the node's own
		c.departed = func() { h.usages.depart(user) }
		return true
	}
	share := h.b.shares.enter(user)
	c.departed = func() { h.usages.depart(user); c.endUnacked(); h.b.shares.leave(share) }
	c.share, c.slow, c.rate = share, func() { h.b.slowRead(c) }, float64(h.b.cfg.Limits.UserRate)
	c.buffer.charges(c.addBuffered)
	c.users.of = &share.credit
	if observes {
		c.turns, c.scanner.Limits.Bytes = h.b.observers, h.b.cfg.Limits.observers()
	} else if h.b.cfg.Users.has(c.user, Client) {
		c.turns = h.b.clients
	}
	if _, plain := c.Conn.(*guest); !plain {
		c.decoders = h.b.decoders.of(h.b.cfg.Users, c.user)
	}
	g.charged.Store(c)
	return true
}

// admit bounds the session of a client that has been let in, and reports whether its user
// has room for it. The CONNACK then says why not.
func (h *sessions) admit(cl *mqtt.Client) bool {
	h.bound(cl)
	c, user := connOf(cl), string(cl.Properties.Username)
	if c == nil || h.b.cfg.Users == nil || h.usages.admit(user, cl) {
		return true
	}
	h.b.limited("max-user-sessions", user, cl.Net.Remote)
	h.b.counts.refusedConnect.Add(1)
	c.connack.refused = packets.ErrQuotaExceeded
	if cl.Properties.ProtocolVersion < 5 {
		c.connack.refused = packets.Err3ServerUnavailable // of its five reasons the nearest
	}
	return false
}

// bound limits what a client asks for: an observer's session ends with its connection.
// MQTT 5 has a property in which it is told; MQTT 3.1.1 tells it, when it comes back, that
// no session was present.
func (h *sessions) bound(cl *mqtt.Client) {
	p := &cl.Properties
	asked, most := outlives(cl), h.longest()
	if h.b.cfg.Users.observes(cl.Properties.Username) {
		p.Clean, most = true, 0
		if asked {
			h.b.limited("max-user-sessions", string(p.Username), cl.Net.Remote)
		}
	}
	if p.Props.SessionExpiryInterval > most {
		p.Props.SessionExpiryInterval = most
		if c := connOf(cl); c != nil {
			c.connack.tellExpiry = true
		}
	}
	// Without the flag mochi takes its own largest interval, of 136 years.
	p.Props.SessionExpiryIntervalFlag = false
}

// longest is for how many seconds a session may wait for its client.
func (h *sessions) longest() uint32 {
	return uint32((h.b.cfg.Limits.SessionExpiry + time.Second - 1) / time.Second)
}

// OnSessionEstablish comes when it is this connection's turn: of two under one client id
// the later one has the session.
func (h *sessions) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	h.forgetWill(cl.ID)
	if h.b.cfg.Users != nil {
		h.usages.hold(string(cl.Properties.Username), cl)
	}
}

func (h *sessions) OnDisconnect(cl *mqtt.Client, _ error, expire bool) {
	if expire {
		h.usages.remove(cl)
		return
	}
	h.usages.absent(cl)
}

// OnPacketRead takes the change of mind about its session, which an MQTT 5 client may
// send when it leaves, in mochi's stead; see bound.
func (h *sessions) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Type != packets.Disconnect || !pk.Properties.SessionExpiryIntervalFlag || !outlives(cl) {
		return pk, nil // one that ends cannot be prolonged; mochi refuses that
	}
	cl.Properties.Props.SessionExpiryInterval = min(pk.Properties.SessionExpiryInterval, h.longest())
	pk.Properties.SessionExpiryIntervalFlag = false
	return pk, nil
}

func (h *sessions) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	c := connOf(cl)
	if pk.FixedHeader.Type != packets.Connack || c == nil {
		return pk
	}
	switch {
	case c.connack.refused.Code != 0:
		pk.ReasonCode, pk.Properties.ReasonString = c.connack.refused.Code, c.connack.refused.Reason
	case c.connack.tellExpiry && pk.ReasonCode == packets.CodeSuccess.Code:
		pk.Properties.SessionExpiryInterval = cl.Properties.Props.SessionExpiryInterval
		pk.Properties.SessionExpiryIntervalFlag = true
	}
	return pk
}

// restore counts the sessions that the data directory held, before clients come.
func (h *sessions) restore() {
	if h.b.cfg.Users != nil {
		for _, cl := range h.b.server.Clients.GetAll() {
			if !cl.Net.Inline {
				h.usages.hold(string(cl.Properties.Username), cl)
				h.usages.absent(cl)
			}
		}
	}
	h.sweep(time.Now())
}

func (h *sessions) run(stop <-chan struct{}) {
	ticker := time.NewTicker(time.Second) // as fine as MQTT's expiry
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			h.sweep(now)
			h.sendWills(now)
			h.b.expire(now)
		case <-stop:
			return
		}
	}
}

// sweep ends the sessions that are over. One whose client is just coming back has its
// turn taken, and is looked at again a second later.
func (h *sessions) sweep(now time.Time) {
	for _, cl := range h.b.server.Clients.GetAll() {
		h.endIfOver(cl, now)
	}
}

// endIfOver is also called when a connection has ended: mochi leaves a client behind that it
// could not send its CONNACK.
func (h *sessions) endIfOver(cl *mqtt.Client, now time.Time) {
	if current, there := h.b.server.Clients.Get(cl.ID); !there || current != cl || !h.over(cl, now) {
		return
	}
	give := h.b.flow.turns.takeFree(cl.ID)
	if give == nil {
		return
	}
	current, there := h.b.server.Clients.Get(cl.ID)
	there = there && current == cl
	if there {
		h.end(cl)
	}
	give()
	if !there {
		return
	}
	h.b.log.Debug("session expired", "client", cl.ID)
	if h.wantsLonger(cl) {
		h.b.limited("session-expiry", string(cl.Properties.Username), cl.Net.Remote)
	}
}

// wantsLonger reports whether it is the limit that ends a session, and not its client's will.
func (h *sessions) wantsLonger(cl *mqtt.Client) bool {
	p := &cl.Properties
	return outlives(cl) && !h.b.cfg.Users.observes(p.Username) && (p.ProtocolVersion < 5 || p.Props.SessionExpiryInterval >= h.longest())
}

// over reports whether nothing will happen to a session any more. A connection that still
// ends by itself removes its session itself.
func (h *sessions) over(cl *mqtt.Client, now time.Time) bool {
	if cl.Net.Inline || cl.StopTime() == 0 {
		return false
	}
	if c := connOf(cl); c != nil && !c.left.Load() {
		return false
	}
	lasts := int64(h.longest())
	if cl.Properties.ProtocolVersion == 5 {
		lasts = min(lasts, int64(cl.Properties.Props.SessionExpiryInterval))
	}
	return !outlives(cl) || h.b.cfg.Users.observes(cl.Properties.Username) || cl.StopTime()+lasts < now.Unix()
}

// end removes a session whose turn is held. What is published to it meanwhile must not
// stay on disk, therefore that is cleared first and last.
func (h *sessions) end(cl *mqtt.Client) {
	persist := h.b.flow.persist
	if persist != nil {
		persist.OnClientExpired(cl)
	}
	h.b.server.UnsubscribeClient(cl)
	cl.ClearInflights()
	h.b.server.Clients.Delete(cl.ID)
	h.usages.remove(cl)
	if persist != nil {
		persist.OnClientExpired(cl)
	}
}
