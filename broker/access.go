package broker

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// access is the hook that decides who may connect, publish and subscribe.
type access struct {
	mqtt.HookBase
	users  *Users // nil: everybody may do everything
	acl    acl
	server *mqtt.Server
	counts *counters
	log    *slog.Logger
	stop   <-chan struct{}
}

func (h *access) ID() string { return "access" }

func (h *access) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablish, mqtt.OnACLCheck, mqtt.OnPacketRead,
		mqtt.OnPublish, mqtt.OnSubscribe, mqtt.OnSubscribed,
	}, b) >= 0
}

// void is where publications go that must be answered but not delivered: mochi
// ignores a publication to $SYS without an acknowledgement, for which the
// client would wait for ever. No client can name a topic with a NUL in it.
const void = "\x00"

// OnConnectAuthenticate checks name and password, and the will: mochi would
// send any will to anywhere.
func (h *access) OnConnectAuthenticate(cl *mqtt.Client, pk packets.Packet) bool {
	if h.users != nil {
		name := pk.Connect.Username
		if !h.users.verify(name, pk.Connect.Password, h.stop) {
			h.refuseConnect(cl, "wrong name or password", "user", string(name))
			return false
		}
		// Client ids are private to their user.
		cl.ID = url.PathEscape(string(name)) + "/" + cl.ID
	}
	if pk.Connect.WillFlag && !h.mayPublish(cl, pk.Connect.WillTopic) {
		h.refuseConnect(cl, "may not leave a will on that topic", "topic", pk.Connect.WillTopic)
		return false
	}
	return true
}

func (h *access) refuseConnect(cl *mqtt.Client, why string, args ...any) {
	h.counts.refusedConnect.Add(1)
	h.log.Warn("connection refused: "+why, append(args, "client", cl.ID, "remote", cl.Net.Remote)...)
}

// OnSessionEstablish is the first that is called for an accepted client.
func (h *access) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	if c := connOf(cl); c != nil {
		c.client.Store(cl)
	}
}

// mayPublish judges a complete topic name.
func (h *access) mayPublish(cl *mqtt.Client, topic string) bool {
	if topic == "" || strings.ContainsAny(topic, "+#\x00") || isSys(topic) {
		return false
	}
	if h.users == nil {
		return true
	}
	a, ok := h.users.lookup(cl.Properties.Username)
	return ok && h.acl.mayWrite(string(cl.Properties.Username), a.role, topic)
}

func isSys(topic string) bool { return len(topic) >= 4 && strings.EqualFold(topic[:4], mqtt.SysPrefix) }

// OnACLCheck is asked with filters that are subscribed to and with the topics
// of messages that are about to be delivered. For publications it comes too
// early: an MQTT 5 topic alias is not resolved yet, and a refusal here
// disconnects 3.1.1 clients. OnPublish judges those.
func (h *access) OnACLCheck(cl *mqtt.Client, topic string, write bool) bool {
	if write || h.users == nil {
		return true
	}
	a, ok := h.users.lookup(cl.Properties.Username)
	if !ok {
		return false
	}
	name := string(cl.Properties.Username)
	if strings.ContainsAny(topic, "+#") || topic[0] == '$' {
		return h.acl.maySubscribe(name, a.role, topic)
	}
	return h.acl.mayRead(name, a.role, topic)
}

func (h *access) OnPacketRead(_ *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Type == packets.Publish && isSys(pk.TopicName) {
		pk.TopicName = void
	}
	return pk, nil
}

// OnPublish lets a refused publication be acknowledged and nothing else. Any
// other error would make mochi deliver a 3.1.1 client's message all the same.
func (h *access) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline || h.mayPublish(cl, pk.TopicName) {
		return pk, nil
	}
	h.counts.refusedPublish.Add(1)
	h.logRefusal(cl, "publication refused", pk.TopicName)
	if cl.Properties.ProtocolVersion == 5 && pk.FixedHeader.Qos == 1 {
		return pk, packets.ErrNotAuthorized
	}
	return pk, packets.CodeSuccessIgnore
}

// OnSubscribe grants at most QoS 1, since mochi throws a client out that sends
// and receives at QoS 2, and empties malformed filters, which mochi takes for
// good ones, so that it refuses them.
func (h *access) OnSubscribe(_ *mqtt.Client, pk packets.Packet) packets.Packet {
	for i := range pk.Filters {
		pk.Filters[i].Qos = min(pk.Filters[i].Qos, 1)
		if !validFilter(unshare(pk.Filters[i].Filter)) {
			pk.Filters[i].Filter = ""
		}
	}
	return pk
}

func (h *access) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	for i, code := range codes {
		if code >= packets.ErrUnspecifiedError.Code {
			h.counts.refusedSubscribe.Add(1)
			h.logRefusal(cl, "subscription refused", pk.Filters[i].Filter)
		}
	}
}

// logRefusal warns once for a connection: a client in a loop must not fill the
// disk. The metrics count each.
func (h *access) logRefusal(cl *mqtt.Client, what, topic string) {
	level := slog.LevelWarn
	if c := connOf(cl); c != nil && c.warned.Swap(true) {
		level = slog.LevelDebug
	}
	h.log.Log(context.Background(), level, what, "client", cl.ID, "topic", topic)
}
