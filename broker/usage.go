package broker

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// usages is what each user has of the broker at the moment. Without users nothing is
// held in it.
type usages struct {
	limits Limits

	mu     sync.Mutex
	byUser map[string]*usage
	queued int64 // bytes that wait for absent sessions of all users
}

// usage is one user's part.
type usage struct {
	connections int
	queued      int64               // bytes that wait for its absent sessions
	all         *int64              // the same, of all users
	sessions    map[string]*session // by client id, absent ones included
}

// session is a client's state, with or without a connection.
type session struct {
	cl     *mqtt.Client
	kept   bool  // outlives its connection
	queued int64 // bytes that have come to wait for it while it is absent
	wide   bool  // is, or was, subscribed to a filter for which isWide holds
	wides  int   // how many of those it is subscribed to, or about to be
}

// queuedCosts is what a waiting message costs beside its strings, in bytes: a packet of
// mochi's in a map.
const queuedCosts = 1024

func queuedSize(pk packets.Packet) int64 {
	p := pk.Properties
	size := queuedCosts + len(pk.TopicName) + len(pk.Origin) + len(pk.Payload) + len(p.CorrelationData) + len(p.ResponseTopic) + len(p.ContentType)
	for _, u := range p.User {
		size += 32 + len(u.Key) + len(u.Val)
	}
	return int64(size)
}

// waitingSize is what a message costs that waits for an absent session, in memory or on
// disk, whichever is more.
func waitingSize(cl *mqtt.Client, pk packets.Packet) int64 {
	return max(queuedSize(pk), int64(len(cl.ID)+storedSize(&pk)))
}

// of returns a user's usage, made if need be; a.mu is held.
func (a *usages) of(user string) *usage {
	if a.byUser[user] == nil {
		a.byUser[user] = &usage{sessions: map[string]*session{}, all: &a.queued}
	}
	return a.byUser[user]
}

// tidy forgets a usage with nothing in it; a.mu is held.
func (a *usages) tidy(user string) {
	if of := a.byUser[user]; of != nil && of.connections == 0 && len(of.sessions) == 0 {
		delete(a.byUser, user)
	}
}

// connect charges a connection, of most, to a user, unless it is one too many. One that takes
// the place of another, by its client id, is granted half as many again, since the other ends
// only afterwards.
func (a *usages) connect(user, id string, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.tidy(user)
	of := a.of(user)
	if of.sessions[id] != nil {
		most += (most + 1) / 2
	}
	if of.connections >= most {
		return false
	}
	of.connections++
	return true
}

// admit charges the session of a connection to a user, unless it is one too many.
func (a *usages) admit(user string, cl *mqtt.Client) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.of(user)
	if outlives(cl) {
		others := 0
		for id, s := range of.sessions {
			if s.kept && id != cl.ID {
				others++
			}
		}
		if others >= a.limits.UserSessions {
			return false
		}
	}
	of.hold(cl)
	return true
}

// depart undoes a connect.
func (a *usages) depart(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(user).connections--
	a.tidy(user)
}

// hold makes a client the one that has the session of its id.
func (a *usages) hold(user string, cl *mqtt.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(user).hold(cl)
}

// wait adds to what waits for absent sessions; a.mu is held.
func (of *usage) wait(size int64) {
	of.queued += size
	*of.all += size
}

func (of *usage) hold(cl *mqtt.Client) {
	kept, wide, wides := outlives(cl), false, 0
	if s := of.sessions[cl.ID]; s != nil {
		if s.cl == cl {
			return
		}
		of.wait(-s.queued)
		if !cl.Properties.Clean {
			wides = s.wides // it inherits them afterwards, also from a session that ends with its connection
		}
		wide = s.wide && (kept || wides > 0)
	}
	if n := widesOf(cl); n > 0 { // of one that was restored
		wide, wides = true, n
	}
	of.sessions[cl.ID] = &session{cl: cl, kept: kept, wide: wide, wides: wides}
}

// find returns a client's session if it still has it; a.mu is held.
func (a *usages) find(cl *mqtt.Client) (*usage, *session) {
	of := a.byUser[string(cl.Properties.Username)]
	if of == nil {
		return nil, nil
	}
	s := of.sessions[cl.ID]
	if s == nil || s.cl != cl {
		return nil, nil
	}
	return of, s
}

// remove ends a session.
func (a *usages) remove(cl *mqtt.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of, s := a.find(cl); s != nil {
		of.wait(-s.queued)
		delete(of.sessions, cl.ID)
		a.tidy(string(cl.Properties.Username))
	}
}

// absent charges what waits for a session whose connection has ended.
func (a *usages) absent(cl *mqtt.Client) {
	var size int64
	for _, pk := range cl.State.Inflight.GetAll(false) {
		if pk.FixedHeader.Type == packets.Publish { // the rest are exchanges of its own, of which few are unfinished
			size += waitingSize(cl, pk)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if of, s := a.find(cl); s != nil {
		of.wait(size - s.queued)
		s.queued = size
	}
}

// charge adds to what waits for an absent session, or subtracts.
func (a *usages) charge(cl *mqtt.Client, size int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of, s := a.find(cl); s != nil {
		size = max(size, -s.queued)
		of.wait(size)
		s.queued += size
	}
}

// waiting is how many bytes wait for the absent sessions of a client's user, and of all users.
func (a *usages) waiting(cl *mqtt.Client) (user, all int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of, _ := a.find(cl); of != nil {
		user = of.queued
	}
	return user, a.queued
}

// smallPart is the part of its quota that a user has for absent sessions when all users together
// have used up theirs: so many users that hoard take nothing from one that does not.
const smallPart = 64

// subscriptions counts those of all sessions of a client's user.
func (a *usages) subscriptions(cl *mqtt.Client) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, _ := a.find(cl)
	if of == nil {
		return 0
	}
	n := 0
	for _, s := range of.sessions {
		n += s.cl.State.Subscriptions.Len()
	}
	return n
}

// wideLevels is how many levels of a topic say whose it is: prefix, version, domain, family,
// and the lock, the addressee or the partition.
const wideLevels = 5

// isWide reports whether a filter may match what all others send each other.
func isWide(filter string) bool {
	filter = unshare(filter)
	for range wideLevels {
		level, rest, more := strings.Cut(filter, "/")
		if level == "+" || level == "#" {
			return true
		}
		if !more {
			return false
		}
		filter = rest
	}
	return false
}

// widesEach is how many wide filters a user may have for each of the sessions that may have
// some: each is another entry that mochi goes through for a publication that it matches, and
// many match the same, as "+/b/#" and "a/+/#" do.
const widesEach = 16

// widen counts a filter of a client's session among the wide ones of its user, unless as many
// sessions have some without it, or together have too many.
func (a *usages) widen(cl *mqtt.Client, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, s := a.find(cl)
	if s == nil {
		return true
	}
	sessions, filters := 0, 0
	for _, o := range of.sessions {
		if o.wide && o != s {
			sessions++
		}
		filters += o.wides
	}
	if sessions >= most || filters >= widesEach*a.limits.UserWildcards {
		return false
	}
	s.wide = true
	s.wides++
	return true
}

// counted counts the wide filters that a client is subscribed to, where that may have changed.
func (a *usages) counted(cl *mqtt.Client, filters packets.Subscriptions) {
	if !slices.ContainsFunc(filters, func(f packets.Subscription) bool { return isWide(f.Filter) }) {
		return
	}
	n := widesOf(cl)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, s := a.find(cl); s != nil {
		s.wides = n
	}
}

// widesOf counts the wide filters that a client is subscribed to.
func widesOf(cl *mqtt.Client) (n int) {
	for filter := range cl.State.Subscriptions.GetAll() {
		if isWide(filter) {
			n++
		}
	}
	return n
}

// tooMany takes the place of a filter that is one too many: mochi refuses it.
const tooMany = "#/max-user-subscriptions"

// OnSubscribe marks the filters that are beyond the user's quota. An observer is granted
// QoS 0: to number a message for it, mochi would have the publisher wait while the
// observer takes nothing of what is being written to it.
func (h *sessions) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	pk = unechoed(pk)
	if h.b.cfg.Users == nil {
		return pk
	}
	left, wide := h.b.cfg.Limits.UserSubscriptions-h.usages.subscriptions(cl), h.b.cfg.Limits.UserWildcards
	observes := h.b.cfg.Users.observes(cl.Properties.Username)
	if observes {
		wide = max(wide, (h.b.cfg.Limits.UserClients+3)/4)
	}
	for i, f := range pk.Filters {
		if observes {
			pk.Filters[i].Qos = 0
		}
		if _, there := cl.State.Subscriptions.Get(f.Filter); there || f.Filter == tooManyShared {
			continue
		}
		switch left--; {
		case left < 0:
			h.b.limited("max-user-subscriptions", string(cl.Properties.Username), cl.Net.Remote)
		case isWide(f.Filter) && !h.usages.widen(cl, wide):
			h.b.limited("max-user-wildcards", string(cl.Properties.Username), cl.Net.Remote)
		default:
			continue
		}
		pk.Filters[i].Filter = tooMany
	}
	return pk
}

// OnUnsubscribe has the answer be short, as that to a SUBSCRIBE is.
func (h *sessions) OnUnsubscribe(_ *mqtt.Client, pk packets.Packet) packets.Packet {
	return unechoed(pk)
}

// unechoed is a packet without its user properties, which mochi would copy into the answer:
// a megabyte several times over, for whoever does not even read it.
func unechoed(pk packets.Packet) packets.Packet {
	pk.Properties.User = nil
	return pk
}

// OnSubscribed says why, which MQTT 3.1.1 cannot.
func (h *sessions) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	for i, f := range pk.Filters {
		if f.Filter == tooMany && cl.Properties.ProtocolVersion == 5 {
			codes[i] = packets.ErrQuotaExceeded.Code
		}
	}
	if c := connOf(cl); c != nil {
		h.usages.counted(cl, pk.Filters[:min(c.replay.asked, len(pk.Filters))]) // those that follow are of replay
	}
}

// OnSessionEstablished comes when a client has what it inherits of the session before.
func (h *sessions) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	n := widesOf(cl)
	h.usages.mu.Lock()
	defer h.usages.mu.Unlock()
	if _, s := h.usages.find(cl); s != nil {
		s.wides, s.wide = n, s.wide || n > 0
	}
}

// OnUnsubscribed gives back what the filters were charged.
func (h *sessions) OnUnsubscribed(cl *mqtt.Client, pk packets.Packet) {
	h.usages.counted(cl, pk.Filters)
}

// mayQueue reports whether a message may be delivered to a session: to an absent one only
// while there is room for what waits for it and for its user. That may be passed by one
// message of each of those that publish at the same time.
func (h *sessions) mayQueue(cl *mqtt.Client) bool {
	if !cl.Closed() {
		return true
	}
	user := string(cl.Properties.Username)
	own, all := h.usages.waiting(cl)
	switch l := h.b.cfg.Limits; {
	case cl.State.Inflight.Len() >= l.Queue:
		h.b.limited("max-queue", user, cl.Net.Remote)
	case own >= int64(l.UserQueue):
		h.b.limited("max-user-queue", user, cl.Net.Remote)
	case all >= int64(l.Absent) && own >= int64(l.UserQueue/smallPart):
		h.b.limited("max-absent", user, cl.Net.Remote)
	default:
		return true
	}
	atomic.AddInt64(&h.b.server.Info.InflightDropped, 1)
	return false
}

// OnQosPublish charges what begins to wait for an absent session.
func (h *sessions) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if pk.FixedHeader.Type == packets.Publish && cl.Closed() {
		h.usages.charge(cl, waitingSize(cl, pk))
	}
}

// OnQosDropped gives back what has expired before its session came back.
func (h *sessions) OnQosDropped(cl *mqtt.Client, pk packets.Packet) {
	if pk.FixedHeader.Type == packets.Publish && cl.Closed() {
		h.usages.charge(cl, -waitingSize(cl, pk))
	}
}
