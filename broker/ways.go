package broker

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// maxWays bounds the topics whose subscribers are remembered, ownWays those of one owner, and
// wayBytes the length of each.
const (
	maxWays  = 1 << 14
	ownWays  = 1 << 10
	wayBytes = 1024
)

// family is what the messages of a topic are for.
type family byte

const (
	toInbox  family = iota
	ofClient        // of locks: its answers, and others
	toServer        // what it asks
)

// way is to whom the messages of a topic go.
type way struct {
	topic  string
	family family
	as     uint64         // of changes
	to     []*mqtt.Client // with a connection, by MQTT 3.1.1
	called []*mqtt.Client // of those the servers in the process, also if mochi has the others: see call
	qos1   bool           // somebody is to get what is published at QoS 1 at that
	mochi  bool           // not by us
}

// ways are the subscribers of topics, as far as they are remembered.
type ways struct {
	changes atomic.Uint64 // of subscriptions and connections that may matter to any topic

	mu   sync.RWMutex
	of   map[string]map[string]*way // by the owner of a topic, and the topic
	size int
	own  map[string]*atomic.Uint64 // changes that matter to the topics of a user, by its name
}

// OnSessionEstablished comes when mochi finds the new connection under the client's id.
func (h *direct) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) { h.changed(cl) }
func (h *direct) OnDisconnect(cl *mqtt.Client, _ error, _ bool)          { h.changed(cl) }

// OnSubscribed comes before the SUBACK.
func (h *direct) OnSubscribed(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	h.resubscribed(cl, pk)
}

func (h *direct) OnUnsubscribed(cl *mqtt.Client, pk packets.Packet) { h.resubscribed(cl, pk) }

// resubscribed is changed, but a server of clients subscribes to more than what clients ask: to
// the states of each lock.
func (h *direct) resubscribed(cl *mqtt.Client, pk packets.Packet) {
	user := cl.Properties.Username
	serves := func(s packets.Subscription) bool { return h.mayServe(s.Filter) }
	if h.access.users.has(user, Gateway) && !slices.ContainsFunc(pk.Filters, serves) {
		h.ways.changedOf(string(user))
		return
	}
	h.changed(cl)
}

// mayServe reports whether a filter may match {prefix}{domain}/lock/{topic}/client/{client}/….
func (h *direct) mayServe(filter string) bool {
	l := strings.Split(unshare(filter), "/")
	family := strings.Count(string(h.prefix), "/") + 3
	return l[len(l)-1] == "#" || len(l) >= family+3 && (l[family] == "client" || l[family] == "+")
}

// changed has the subscribers of a topic looked up again. Who may read its own topics only changes no
// other: else hundreds that subscribe and unsubscribe without pause would cost every lock message a
// search.
func (h *direct) changed(cl *mqtt.Client) {
	if h.access.users == nil {
		h.ways.changes.Add(1)
		return
	}
	switch a, known := h.access.users.lookup(cl.Properties.Username); {
	case !known: // it may read nothing
	case a.role == Admin, a.role == Gateway:
		h.ways.changes.Add(1)
	default:
		h.ways.changedOf(string(cl.Properties.Username))
	}
}

// changedOf forgets the ways of the topics of a user.
func (w *ways) changedOf(user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own == nil {
		w.own = map[string]*atomic.Uint64{}
	}
	if w.own[user] == nil {
		w.own[user] = new(atomic.Uint64)
	}
	w.own[user].Add(1) // for those who are looking them up
	w.forget(user)
}

// forget has mu locked.
func (w *ways) forget(owner string) {
	w.size -= len(w.of[owner])
	delete(w.of, owner)
}

// find returns what is remembered of a topic, nil for nothing, and how much has changed up to now.
func (w *ways) find(owner, topic []byte) (found *way, as uint64) {
	as = w.changes.Load()
	w.mu.RLock()
	defer w.mu.RUnlock()
	if own := w.own[string(owner)]; own != nil {
		as += own.Load()
	}
	return w.of[string(owner)][string(topic)], as
}

// keep remembers a way, in the place of others if there are too many and somebody is to get the
// messages.
func (w *ways) keep(owner string, found *way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size >= maxWays && len(found.to) == 0 && !found.mochi {
		return
	}
	all := w.of[owner]
	if _, again := all[found.topic]; !again {
		for topic := range all {
			if len(all) < ownWays {
				break
			}
			delete(all, topic)
			w.size--
		}
		for other := range w.of {
			if w.size < maxWays {
				break
			}
			w.forget(other)
		}
		w.size++
	}
	if w.of == nil {
		w.of = map[string]map[string]*way{}
	}
	if all = w.of[owner]; all == nil {
		all = map[string]*way{}
		w.of[owner] = all
	}
	all[found.topic] = found
}

// wayOf looks up the subscribers of a topic, if they are not known; nil: it is no topic that goes past
// mochi.
func (h *direct) wayOf(topic []byte) *way {
	owner, family := h.ownerOf(topic)
	if owner == nil {
		return nil
	}
	w, as := h.ways.find(owner, topic)
	if h.access.users != nil {
		as += h.access.users.changes.Load()
	}
	if w == nil || w.as != as {
		if w = h.look(string(topic), family, as); len(topic) <= wayBytes {
			h.ways.keep(string(owner), w)
		}
	}
	return w
}

func (h *direct) look(topic string, family family, as uint64) *way {
	w := &way{topic: topic, family: family, as: as}
	found := h.server.Topics.Subscribers(topic)
	w.mochi = len(found.InlineSubscriptions) > 0
	for _, group := range found.Shared {
		for id := range group {
			w.mochi = w.mochi || h.reader(id, topic) != nil
		}
	}
	for id, sub := range found.Subscriptions {
		cl := h.reader(id, topic)
		if cl == nil {
			continue
		}
		w.qos1 = w.qos1 || sub.Qos > 0
		switch {
		case cl.Properties.ProtocolVersion >= 5:
			w.mochi = true
		case !cl.Closed() && connOf(cl) != nil:
			w.to = append(w.to, cl)
		case family == toInbox: // else nothing waits for it at QoS 0
			w.mochi = true
		}
	}
	if family != toServer {
		return w
	}
	w.mochi = w.mochi || w.qos1
	for _, cl := range w.to {
		if connOf(cl).outlet.attached.Load() != nil && found.Subscriptions[cl.ID].Qos == 0 {
			w.called = append(w.called, cl)
		}
	}
	return w
}

// reader returns a client that may read a topic; nil: there is none of that id, or it may not, and
// has no say in the way of a message.
func (h *direct) reader(id, topic string) *mqtt.Client {
	cl, ok := h.server.Clients.Get(id)
	if !ok || h.access.users != nil && !h.access.mayRead(cl, topic) {
		return nil
	}
	return cl
}
