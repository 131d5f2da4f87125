package broker

import (
	"bytes"
	"maps"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// tooManyShared takes the place of a filter that is one too many: mochi refuses it.
const tooManyShared = "#/max-shared-subscriptions"

// maxFilter bounds a filter, in bytes of JSON: six levels can have a name of a participant's or
// of its topics, each of 128 bytes that take six.
const maxFilter = 5120

// OnSubscribe grants at most QoS 1, since mochi throws a client out that sends
// and receives at QoS 2, and empties malformed filters, which mochi takes for
// good ones, and long ones, so that it refuses them. A filter that is there
// twice counts once. Whether the user may subscribe is decided in OnACLCheck,
// which mochi calls for each filter afterwards.
func (h *access) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	first := map[string]int{}
	for i := range pk.Filters {
		f := &pk.Filters[i]
		f.Qos = min(f.Qos, 1)
		if !validFilter(unshare(f.Filter)) {
			f.Filter = ""
			continue
		}
		if n := inJSON(f.Filter); n > maxFilter {
			h.logRefusal(cl, "subscription refused: its filter is too long", f.Filter, "bytes", n, "limit", maxFilter)
			f.Filter = ""
			continue
		}
		at, twice := first[f.Filter]
		if !twice {
			f.Filter = strings.Clone(f.Filter) // or it would keep the packet
			first[f.Filter] = i
			continue
		}
		f.Filter = pk.Filters[at].Filter
		pk.Filters[at] = *f // the last one counts
		f.RetainHandling = 2
	}
	h.boundShared(cl, pk.Filters)
	return pk
}

// boundShared refuses shared subscriptions beyond a user's limit: mochi goes through all
// of them that match at each publication, whoever publishes.
func (h *access) boundShared(cl *mqtt.Client, filters packets.Subscriptions) {
	room := -1 // not known yet
	for i := range filters {
		f := &filters[i]
		if !mqtt.IsSharedFilter(f.Filter) {
			continue
		}
		if _, known := cl.State.Subscriptions.Get(f.Filter); known {
			continue
		}
		if room < 0 {
			room = max(h.limits.SharedSubscriptions-h.shared(cl), 0)
		}
		if room == 0 {
			f.Filter = tooManyShared
			h.limited("max-shared-subscriptions", string(cl.Properties.Username), cl.Net.Remote)
			continue
		}
		room--
	}
}

// shared counts the shared subscriptions of a client's user, or of the client alone if
// there are no users.
func (h *access) shared(cl *mqtt.Client) (n int) {
	sessions := map[string]*mqtt.Client{cl.ID: cl}
	if h.users != nil {
		sessions = h.server.Clients.GetAll()
	}
	for _, other := range sessions {
		if !bytes.Equal(other.Properties.Username, cl.Properties.Username) {
			continue
		}
		for filter := range other.State.Subscriptions.GetAll() {
			if mqtt.IsSharedFilter(filter) {
				n++
			}
		}
	}
	return n
}

func (h *access) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	c := connOf(cl)
	if c == nil {
		return
	}
	codes = codes[:c.replay.asked] // the rest is of replay
	for i, code := range codes {
		if code >= packets.ErrUnspecifiedError.Code {
			h.counts.refusedSubscribe.Add(1)
			switch f := pk.Filters[i].Filter; {
			case f != tooManyShared && f != tooMany: // those were logged with their limits
				h.logRefusal(cl, "subscription refused", f)
			case f == tooManyShared && cl.Properties.ProtocolVersion == 5:
				codes[i] = packets.ErrQuotaExceeded.Code
			}
		} else if h.users != nil && h.acl.asksRole(pk.Filters[i].Filter) {
			h.tellRole(c, cl, pk.Filters[i].Filter)
		}
	}
}

// OnSelectSubscribers leaves those out of shared subscriptions who may not read the topic:
// mochi would choose one of them, and the message would reach no member of the group.
func (h *access) OnSelectSubscribers(subs *mqtt.Subscribers, pk packets.Packet) *mqtt.Subscribers {
	if h.users == nil {
		return subs
	}
	for _, group := range subs.Shared {
		maps.DeleteFunc(group, func(id string, _ packets.Subscription) bool {
			cl, ok := h.server.Clients.Get(id)
			return !ok || !h.mayRead(cl, pk.TopicName)
		})
	}
	return subs
}
