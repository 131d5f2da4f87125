package broker

import (
	"bytes"
	"slices"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// OnWill charges a will that is retained now: at the CONNECT it was none yet, and what stood
// under its topic still does. One that waits for its delay, or was sent by us, is not sent.
func (h *access) OnWill(cl *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	if h.sessions.delayWill(cl, will) || h.sessions.b.flow.publishesWill(cl, will) {
		return mqtt.Will{}, nil // mochi publishes it under no topic, which nobody hears
	}
	return h.chargeWill(cl, will), nil
}

func (h *access) chargeWill(cl *mqtt.Client, w mqtt.Will) mqtt.Will {
	// They would keep the CONNECT.
	w.TopicName, w.Payload = strings.Clone(w.TopicName), bytes.Clone(w.Payload)
	w.User = slices.Clone(w.User)
	for i, u := range w.User {
		w.User[i] = packets.UserProperty{Key: strings.Clone(u.Key), Val: strings.Clone(u.Val)}
	}
	user := string(cl.Properties.Username)
	pk := packets.Packet{TopicName: w.TopicName, Origin: cl.ID, Payload: w.Payload, Properties: packets.Properties{User: w.User}}
	if w.Retain && !h.quota.keep(user, w.TopicName, retainedCost(&pk)) {
		w.Retain = false
		h.counts.refusedRetain.Add(1)
		h.sessions.b.limited("max-retained", user, cl.Net.Remote)
		h.logRefusal(cl, "will not retained: the user keeps too much already", w.TopicName)
	}
	return w
}

// OnRetainMessage charges once more what OnPublish has let pass, under the lock of the tree:
// a former message of the topic may have expired in between.
func (h *access) OnRetainMessage(cl *mqtt.Client, pk packets.Packet, _ int64) {
	h.expiries.note(strings.Clone(pk.TopicName), &pk)
	if len(pk.Payload) > 0 {
		h.quota.ensure(string(cl.Properties.Username), pk.TopicName, retainedCost(&pk))
	}
}

// OnRetainedExpired gives the room of a message back. mochi has forgotten the message, but
// not the levels of its topic.
func (h *access) OnRetainedExpired(topic string) {
	tree := &h.sessions.b.guard.tree
	tree.Lock()
	defer tree.Unlock()
	if _, there := h.server.Topics.Retained.Get(topic); there {
		return // another one has come
	}
	h.server.Topics.RetainMessage(packets.Packet{TopicName: topic})
	h.quota.keep("", topic, 0)
}
