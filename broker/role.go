package broker

import mqtt "github.com/mochi-mqtt/server/v2"

// maxDomain is how many bytes the name of a domain has, as for participants.
const maxDomain = 128

// asksRole reports whether a filter is {prefix}/v1/{domain}/role, where a user is told its
// role: a subscription to it is answered with one message, for nobody else.
func (a acl) asksRole(filter string) bool {
	l := a.levels(filter)
	return len(l) == 2 && l[0] != "+" && len(l[0]) <= maxDomain && l[1] == "role"
}

// tellRole answers. It must not wait for a client that does not read: nobody else can
// subscribe or retain before it returns. An answer that is one too many is left out.
func (h *access) tellRole(c *conn, cl *mqtt.Client, topic string) {
	a, ok := h.users.lookup(cl.Properties.Username)
	if !ok {
		return
	}
	role := a.role
	if role == Member {
		role = "member"
	}
	if cl.Properties.ProtocolVersion >= 5 {
		role = "\x00" + role // no properties
	}
	c.outlet.send(c, cl, appendPublish(nil, topic, []byte(role)), &h.limits)
}
