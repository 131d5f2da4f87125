package broker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/storage"
	"github.com/mochi-mqtt/server/v2/packets"
)

// persistence is the hook that keeps retained messages, and the sessions that
// outlive their connection, in a store. Whatever belongs to a clean session
// does not touch it.
type persistence struct {
	mqtt.HookBase
	store  *store
	server *mqtt.Server
	expire map[string]int64 // seconds since 1970, of retained messages, by topic; as loaded
}

// The buckets of the store: retained messages by topic, and one bucket for each
// client id, with the keys below.
const (
	retainedBucket = "retained"
	clientBucket   = "client/"
	sessionKey     = "session"
	subscription   = "sub/"     // and the filter
	inflight       = "message/" // and the packet id
)

func (h *persistence) ID() string { return "persistence" }

func (h *persistence) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnSessionEstablish, mqtt.OnDisconnect, mqtt.OnClientExpired,
		mqtt.OnSubscribed, mqtt.OnUnsubscribed, mqtt.OnRetainMessage, mqtt.OnRetainedExpired,
		mqtt.OnQosPublish, mqtt.OnQosComplete, mqtt.OnQosDropped,
		mqtt.StoredClients, mqtt.StoredSubscriptions, mqtt.StoredInflightMessages, mqtt.StoredRetainedMessages,
	}, b) >= 0
}

func (h *persistence) put(bucket, key string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("broker: %T has no JSON: %v", v, err)) // strings, numbers and bytes only
	}
	h.store.put(bucket, key, data)
}

// OnSessionEstablish comes before the CONNACK.
func (h *persistence) OnSessionEstablish(cl *mqtt.Client, pk packets.Packet) {
	if pk.Connect.Clean || !outlives(cl) {
		h.store.drop(clientBucket + cl.ID)
	}
	if outlives(cl) {
		h.putSession(cl)
	}
}

func (h *persistence) putSession(cl *mqtt.Client) {
	p := cl.Properties.Props
	h.put(clientBucket+cl.ID, sessionKey, storage.Client{
		ID:              cl.ID,
		Username:        cl.Properties.Username,
		ProtocolVersion: cl.Properties.ProtocolVersion,
		Properties: storage.ClientProperties{
			SessionExpiryInterval: p.SessionExpiryInterval,
		},
	})
}

// OnDisconnect ends a session that ends with its connection. An MQTT 5 client
// may change its mind about that when it leaves.
func (h *persistence) OnDisconnect(cl *mqtt.Client, _ error, expire bool) {
	switch {
	case cl.IsTakenOver():
	case expire:
		h.store.drop(clientBucket + cl.ID)
	case cl.Properties.ProtocolVersion == 5:
		h.putSession(cl)
	}
}

func (h *persistence) OnClientExpired(cl *mqtt.Client) { h.store.drop(clientBucket + cl.ID) }

// OnSubscribed comes before the SUBACK.
func (h *persistence) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	if !outlives(cl) {
		return
	}
	for i, sub := range pk.Filters {
		if codes[i] >= packets.ErrUnspecifiedError.Code {
			continue
		}
		h.put(clientBucket+cl.ID, subscription+sub.Filter, storage.Subscription{
			Client: cl.ID, Filter: sub.Filter, Qos: sub.Qos, Identifier: sub.Identifier,
			NoLocal: sub.NoLocal, RetainAsPublished: sub.RetainAsPublished, RetainHandling: sub.RetainHandling,
		})
	}
}

func (h *persistence) OnUnsubscribed(cl *mqtt.Client, pk packets.Packet) {
	for _, sub := range pk.Filters {
		h.store.remove(clientBucket+cl.ID, subscription+sub.Filter)
	}
}

// OnRetainMessage stores what mochi has just kept in memory, not the packet:
// when two publications of a topic race, memory and disk must agree on the last.
func (h *persistence) OnRetainMessage(_ *mqtt.Client, pk packets.Packet, _ int64) {
	h.store.update(retainedBucket, pk.TopicName, func() []byte {
		kept, ok := h.server.Topics.Retained.Get(pk.TopicName)
		if !ok {
			return nil
		}
		m := messageOf(kept)
		m.Sent = kept.Expiry // for which it has no other room
		data, err := json.Marshal(m)
		if err != nil {
			panic(fmt.Sprintf("broker: a message has no JSON: %v", err))
		}
		return data
	})
}

// OnRetainedExpired writes what is retained by now: another message may have come.
func (h *persistence) OnRetainedExpired(topic string) {
	h.OnRetainMessage(nil, packets.Packet{TopicName: topic}, 0)
}

func messageKey(id uint16) string { return inflight + strconv.Itoa(int(id)) }

// OnQosPublish comes before the publisher's PUBACK, see flow.OnPublish.
func (h *persistence) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if pk.FixedHeader.Type != packets.Publish || !outlives(cl) || cl.IsTakenOver() { // see flow.forward
		return
	}
	if now, ok := cl.State.Inflight.Get(pk.PacketID); ok {
		pk = now // with its number in the session
	}
	pk.Origin = "" // which No Local has been compared with
	h.put(clientBucket+cl.ID, messageKey(pk.PacketID), messageOf(pk))
}

// OnQosComplete is called for deliveries that a client has acknowledged and for
// publications that the broker has acknowledged; only the latter were made here
// and know when.
func (h *persistence) OnQosComplete(cl *mqtt.Client, pk packets.Packet) {
	if pk.FixedHeader.Type == packets.Puback && pk.Created == 0 {
		h.store.remove(clientBucket+cl.ID, messageKey(pk.PacketID))
	}
}

// OnQosDropped is also called for what a new connection has inherited.
func (h *persistence) OnQosDropped(cl *mqtt.Client, pk packets.Packet) {
	if !cl.IsTakenOver() {
		h.store.remove(clientBucket+cl.ID, messageKey(pk.PacketID))
	}
}

// messageOf leaves out whom the message is for, which is its bucket; older versions stored it.
func messageOf(pk packets.Packet) storage.Message {
	p := pk.Properties
	return storage.Message{
		FixedHeader: pk.FixedHeader,
		TopicName:   pk.TopicName,
		Payload:     pk.Payload,
		Origin:      pk.Origin,
		Created:     pk.Created,
		PacketID:    pk.PacketID,
		Properties: storage.MessageProperties{
			CorrelationData: p.CorrelationData, SubscriptionIdentifier: p.SubscriptionIdentifier, User: p.User,
			ContentType: p.ContentType, ResponseTopic: p.ResponseTopic, MessageExpiryInterval: p.MessageExpiryInterval,
			PayloadFormat: p.PayloadFormat, PayloadFormatFlag: p.PayloadFormatFlag,
		},
	}
}

// recordCosts is what the record of a message has beside what clients choose: names of
// fields, numbers, its frame.
const recordCosts = 512

// storedSize is how long the record of a message is, at most, without its bucket and key.
func storedSize(pk *packets.Packet) int {
	p := &pk.Properties
	size := recordCosts + base64.StdEncoding.EncodedLen(len(pk.Payload)) + base64.StdEncoding.EncodedLen(len(p.CorrelationData)) +
		inJSON(pk.TopicName) + inJSON(pk.Origin) + inJSON(p.ResponseTopic) + inJSON(p.ContentType) +
		10*len(p.SubscriptionIdentifier)
	for _, u := range p.User {
		size += 32 + inJSON(u.Key) + inJSON(u.Val)
	}
	return size
}

// inJSON is how long a string is there, at most.
func inJSON(s string) int {
	n := len(s)
	for i := range len(s) {
		if c := s[i]; c < ' ' || strings.IndexByte("\"\\<>&\xe2", c) >= 0 { // U+2028 begins with the last
			n += 5
		}
	}
	return n
}

// load decodes the values of all clients whose keys have a prefix. Of each, complete is told
// the client id.
func load[T any](s *store, prefix string, complete func(id string, v *T)) ([]T, error) {
	var all []T
	clients := func(bucket string) bool { return strings.HasPrefix(bucket, clientBucket) }
	err := s.each(clients, func(bucket, key string, value []byte) error {
		if !strings.HasPrefix(key, prefix) {
			return nil
		}
		var v T
		err := json.Unmarshal(value, &v)
		complete(strings.TrimPrefix(bucket, clientBucket), &v)
		all = append(all, v)
		return err
	})
	return all, err
}

// endUnreachable ends the sessions whose client ids are refused now: an earlier version took
// longer ones. They would count against their user for as long as sessions wait.
func (h *persistence) endUnreachable() {
	ended := h.store.dropAll(func(bucket string) bool {
		id, ok := strings.CutPrefix(bucket, clientBucket)
		return ok && len(id) > maxClientID
	})
	if ended > 0 {
		h.store.log.Warn("sessions have ended, with what waited for them: their client ids are longer than this version takes", "sessions", ended, "most_bytes", maxClientID)
	}
}

// StoredClients is the first that mochi loads.
func (h *persistence) StoredClients() ([]storage.Client, error) {
	h.endUnreachable()
	return load(h.store, sessionKey, func(_ string, cl *storage.Client) {
		cl.Properties.SessionExpiryIntervalFlag = false // older versions stored it; see sessions.bound
	})
}

func (h *persistence) StoredSubscriptions() ([]storage.Subscription, error) {
	return load(h.store, subscription, func(string, *storage.Subscription) {})
}

func (h *persistence) StoredInflightMessages() ([]storage.Message, error) {
	return load(h.store, inflight, func(id string, m *storage.Message) { m.Client = id })
}

func (h *persistence) StoredRetainedMessages() ([]storage.Message, error) {
	var all []storage.Message
	err := h.store.each(func(bucket string) bool { return bucket == retainedBucket }, func(_, _ string, value []byte) error {
		var m storage.Message
		err := json.Unmarshal(value, &m)
		if all = append(all, m); m.Sent > 0 {
			h.expire[m.TopicName] = m.Sent
		}
		return err
	})
	return all, err
}
