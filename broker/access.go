package broker

import (
	"bytes"
	"log/slog"
	"net/url"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// access is the hook that decides who may connect, publish and subscribe.
type access struct {
	mqtt.HookBase
	users        *Users // nil: everybody may do everything
	certificates bool   // a certificate's name is a user
	acl          acl
	quota        *quota
	expiries     expiries
	sessions     *sessions
	server       *mqtt.Server
	counts       *counters
	log          *slog.Logger
	limits       Limits
	turns        *turns // at checking passwords
	limited      func(limit, user, address string)
}

func (h *access) ID() string { return "access" }

func (h *access) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablish, mqtt.OnACLCheck, mqtt.OnPacketRead,
		mqtt.OnPublish, mqtt.OnWill, mqtt.OnRetainMessage, mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnRetainedExpired,
		mqtt.OnSelectSubscribers,
	}, b) >= 0
}

// void is where publications go that must be answered but not delivered: mochi
// ignores a publication to $SYS without an acknowledgement, for which the
// client would wait for ever. No client can name a topic with a NUL in it.
const void = "\x00"

// OnConnectAuthenticate takes over who was let in, and checks the will: mochi would send
// any will to anywhere.
func (h *access) OnConnectAuthenticate(cl *mqtt.Client, pk packets.Packet) bool {
	if h.users != nil {
		c := connOf(cl)
		if c == nil || c.user == nil || !bytes.Equal(pk.Connect.Username, c.connect.User) {
			return false // not the CONNECT that letIn has judged
		}
		cl.Properties.Username = c.user
		cl.ID = clientID(c.user, cl.ID)
	}
	cl.ID = strings.Clone(cl.ID) // or it would keep the packet
	// Nor are any used on the way to a client: mochi would remember every topic that it was sent.
	cl.Properties.Props.TopicAliasMaximum = 0
	if pk.Connect.WillFlag && !h.mayLeave(cl, pk.Connect.WillTopic) {
		h.counts.refusedWill.Add(1)
		h.logConnect(cl, "may not leave a will on that topic", "topic", pk.Connect.WillTopic)
		return false
	}
	w := packets.Packet{TopicName: pk.Connect.WillTopic, Origin: cl.ID, Payload: pk.Connect.WillPayload, Properties: pk.Connect.WillProperties}
	if pk.Connect.WillFlag && pk.Connect.WillRetain && !h.quota.fits(string(cl.Properties.Username), w.TopicName, retainedCost(&w)) {
		h.counts.refusedRetain.Add(1)
		h.sessions.b.limited("max-retained", string(cl.Properties.Username), cl.Net.Remote)
		h.logConnect(cl, "keeps too much already to leave a retained will", "topic", pk.Connect.WillTopic)
		return false
	}
	if !h.sessions.admit(cl) {
		return false
	}
	h.sessions.takeWillDelay(cl)
	return true
}

// clientID makes ids private to their user.
func clientID(user []byte, id string) string { return url.PathEscape(string(user)) + "/" + id }

// OnSessionEstablish is the first that is called for an accepted client.
func (h *access) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	if c := connOf(cl); c != nil {
		c.client.Store(cl)
	}
}

// mayLeave judges the topic of a will.
func (h *access) mayLeave(cl *mqtt.Client, topic string) bool {
	if !h.mayPublish(cl, topic) {
		return false
	}
	if h.users == nil {
		return true
	}
	a, ok := h.users.lookup(cl.Properties.Username)
	return ok && h.acl.mayWill(a.role, topic)
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
	if write {
		return true // topic is empty where an alias stands for it
	}
	filter := strings.ContainsAny(topic, "+#") || topic[0] == '$'
	if h.users == nil {
		return filter || h.sessions.mayQueue(cl) && h.sessions.b.flow.mayWait(cl, topic)
	}
	if filter {
		a, ok := h.users.lookup(cl.Properties.Username)
		return ok && h.acl.maySubscribe(string(cl.Properties.Username), a.role, topic)
	}
	return h.mayRead(cl, topic) && h.sessions.mayQueue(cl) && h.sessions.b.flow.mayWait(cl, topic)
}

// mayRead judges a complete topic name, where there are users.
func (h *access) mayRead(cl *mqtt.Client, topic string) bool {
	a, ok := h.users.lookup(cl.Properties.Username)
	return ok && h.acl.mayRead(string(cl.Properties.Username), a.role, topic)
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
	switch {
	case cl.Net.Inline:
		return pk, nil
	case !h.mayPublish(cl, pk.TopicName):
		h.counts.refusedPublish.Add(1)
		h.logRefusal(cl, "publication refused", pk.TopicName)
	case !pk.FixedHeader.Retain:
		return pk, nil
	case !h.quota.keep(string(cl.Properties.Username), pk.TopicName, retainedCost(&pk)):
		h.counts.refusedRetain.Add(1)
		h.sessions.b.limited("max-retained", string(cl.Properties.Username), cl.Net.Remote)
		h.logRefusal(cl, "publication refused: the user keeps too much already", pk.TopicName)
	default:
		ownStrings(&pk)
		return pk, nil
	}
	if cl.Properties.ProtocolVersion == 5 && pk.FixedHeader.Qos == 1 {
		return pk, packets.ErrNotAuthorized
	}
	return pk, packets.CodeSuccessIgnore
}
