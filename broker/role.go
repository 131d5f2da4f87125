package broker

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// asksRole reports whether a filter is {prefix}/v1/{domain}/role, where a user is told its
// role: a subscription to it is answered with one message, for nobody else.
func (a acl) asksRole(filter string) bool {
	l := a.levels(filter)
	return len(l) == 2 && l[0] != "+" && l[1] == "role"
}

// tellRole writes the answer. Who reads nothing is thrown out as for any delivery.
func (h *access) tellRole(cl *mqtt.Client, topic string) {
	a, ok := h.users.lookup(cl.Properties.Username)
	if !ok {
		return
	}
	role := a.role
	if role == Member {
		role = "member"
	}
	_ = cl.WritePacket(packets.Packet{
		ProtocolVersion: cl.Properties.ProtocolVersion,
		FixedHeader:     packets.FixedHeader{Type: packets.Publish},
		TopicName:       topic, Payload: []byte(role),
		Ignore: true, // it has not waited in the queue; mochi does not look at that here
	})
}
