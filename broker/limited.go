package broker

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/internal/throttle"
)

// remedies says for each limit what the operator, or the owner of a client that has
// reached it, can do. A limit is named after its flag of "pubsub-node broker".
var remedies = map[string]string{
	"max-connect-size":                "send a shorter will, name or password (over WebSocket also shorter headers, such as cookies), or raise Limits.ConnectSize (--max-connect-size); a WebSocket's request has at most 62 headers in any case",
	"max-unauthenticated":             "the oldest of them was closed; this address, which may be a proxy's, has most of them: keep strangers out by a firewall, or raise Limits.Unauthenticated (--max-unauthenticated)",
	"max-unauthenticated-per-address": "keep that address out by a firewall, or raise Limits.UnauthenticatedPerAddress (--max-unauthenticated-per-address)",
	"max-password-wait":               "keep strangers out by a firewall, or raise Limits.PasswordChecks or PasswordWait (--max-password-checks, --max-password-wait)",
	"max-properties":                  "send fewer MQTT 5 properties in a packet, or raise Limits.Properties (--max-properties)",
	"max-filters":                     "subscribe in several packets, or raise Limits.Filters (--max-filters)",
	"max-shared-subscriptions":        "share among more clients in fewer groups, or raise Limits.SharedSubscriptions (--max-shared-subscriptions)",
	"max-topic-levels":                "use topics of fewer levels, or raise Limits.TopicLevels (--max-topic-levels)",
	"max-clients":                     "end clients that nobody needs, or raise Limits.Clients (--max-clients)",
	"max-packet":                      "send smaller packets (an observer has a sixteenth: subscribe in several), or raise Limits.PacketSize (--max-packet)",
	"max-queue":                       "reconnect the session, which loses the newest messages meanwhile, or end it with a clean session",
	"max-unsent":                      "have the client read faster, or subscribe to less, or raise Limits.Unsent (--max-unsent)",
	"max-unwritten":                   "give the disk of the data directory room: what is beyond is forgotten, and a restart brings back what stood before; or raise Limits.Unwritten (--max-unwritten)",
	"max-retained":                    "clear retained messages that nobody needs, by empty ones, or raise Limits.Retained (--max-retained)",
	"connect-timeout":                 "if this is an MQTT client, see whether it and the broker agree on TLS, or raise Limits.ConnectTimeout (--connect-timeout)",
	"write-timeout":                   "have the client read and acknowledge what it has subscribed to, or raise Limits.WriteTimeout (--write-timeout)",
	"max-user-clients":                "end connections of the user that nobody needs, give its programs users of their own, or raise Limits.UserClients (--max-user-clients)",
	"max-user-sessions":               "connect with a clean session (an observer has no other), use a client id again in place of ever new ones, or raise Limits.UserSessions (--max-user-sessions)",
	"max-user-subscriptions":          "subscribe to wildcards in place of single topics, or raise Limits.UserSubscriptions (--max-user-subscriptions)",
	"max-user-rate":                   "send less, give programs users of their own, or raise Limits.UserRate (--max-user-rate)",
	"max-user-wildcards":              "subscribe to narrower filters, or on fewer connections, or raise Limits.UserWildcards (--max-user-wildcards)",
	"max-user-queue":                  "reconnect the sessions for which messages wait, have clients read and acknowledge what they are sent, or end the sessions with a clean session; or raise Limits.UserQueue (--max-user-queue)",
	"session-expiry":                  "connect sessions again in time, or end those that nobody needs with a clean session, or raise Limits.SessionExpiry (--session-expiry)",
	"max-absent":                      "reconnect the sessions for which messages wait or end them with a clean session, or raise Limits.Absent (--max-absent)",
}

// maxToldName cuts a name that a stranger chose.
const maxToldName = 256

// limitLog counts what went beyond a limit, and names who did in the log, at most once
// a minute for each limit and name. The zero value is ready to use.
type limitLog struct {
	mu     sync.Mutex
	counts map[string]int64
	told   throttle.Log[limitedBy] // strangers choose their addresses and, where there are no users, their names
	full   throttle.Log[string]    // that told is
}

// limitedBy is a limit and who has reached it.
type limitedBy struct{ limit, who string }

// limited counts that somebody has reached a limit, a key of remedies, and logs a
// warning that names the limit and the user, or the address of one without a name.
// Strangers may cause calls as often as they like.
func (b *Broker) limited(limit, user, address string) {
	kind, who := "user", user
	if user == "" {
		kind, who = "address", hostOf(address)
	}
	if len(who) > maxToldName {
		who = strings.ToValidUTF8(who[:maxToldName], "")
	}
	name, full := b.reached.count(limitedBy{limit, kind + " " + who}, time.Now())
	switch {
	case name:
		b.log.Warn("limit reached", "limit", limit, kind, who, "remedy", remedies[limit])
	case full:
		b.log.Warn("limits reached by more users and addresses than are named in a minute: see padme_broker_limited_total",
			"limit", limit, "remedy", remedies[limit])
	}
}

// hostOf is an address without its port, which is another one for each connection, and in
// IPv6 the network of it, in which a host has 2⁶⁴ addresses of its own.
func hostOf(address string) string {
	if at, err := netip.ParseAddrPort(address); err == nil {
		return placeOf(at.Addr())
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

func placeOf(ip netip.Addr) string {
	if ip = ip.Unmap().WithZone(""); ip.Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// count reports whether the log should name by now, or say that it names no more.
func (l *limitLog) count(by limitedBy, now time.Time) (name, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]int64{}
	}
	l.counts[by.limit]++
	if l.told.Lately(by, now) {
		return false, false
	}
	name = l.told.May(by, now)
	return name, !name && l.full.May("full", now)
}

// each calls f with every limit, in order, and how often it was reached.
func (l *limitLog) each(f func(limit string, n int64)) {
	l.mu.Lock()
	counts := maps.Clone(l.counts)
	l.mu.Unlock()
	for _, limit := range slices.Sorted(maps.Keys(remedies)) {
		f(limit, counts[limit])
	}
}

// Reached returns, by the name of its flag of "pubsub-node broker", each limit that somebody has gone
// beyond since Start, and how often.
func (b *Broker) Reached() map[string]int64 {
	if b.made() != nil {
		return nil
	}
	reached := map[string]int64{}
	b.reached.each(func(limit string, n int64) {
		if n > 0 {
			reached[limit] = n
		}
	})
	return reached
}
