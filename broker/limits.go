package broker

import (
	"fmt"
	"runtime"
	"time"
)

// Limits bounds what clients can make the broker spend. A zero field means its
// default.
type Limits struct {
	// PacketSize is the largest MQTT packet in bytes, default 1 MiB. A client
	// that announces more is disconnected before anything is allocated. An observer, who
	// may only subscribe, may send a sixteenth, or 16 KiB if that is more and below PacketSize.
	PacketSize int
	// Clients is the number of clients at a time that are connected, and have proven
	// who they are where there are Users; default 4096. One more is told that the server
	// is busy.
	Clients int
	// ConnectTimeout is how long a connection may take from being accepted to
	// a complete CONNECT, TLS and WebSocket handshakes included; default 10 s.
	ConnectTimeout time.Duration
	// WriteTimeout is how long a client may refuse to take what is sent to it,
	// or leave a full queue unacknowledged, before it is disconnected; default
	// 5 s. It is also the longest that one stalled subscriber delays a
	// publisher: while publishers wait, taking an eighth of a full queue, or
	// 4 MiB, renews it, and less in proportion.
	WriteTimeout time.Duration
	// Retained is how many bytes of retained messages one user may keep, each counted
	// with what it takes: payload, properties, 640 bytes for each level of its topic and
	// 1280 more, or its bytes on disk if they are more; default 64 MiB, some nine thousand
	// small ones. It is as much again for what participants and locks need, so that who has
	// filled the former with samples can join and lock. Without users all are one user. What
	// is beyond is refused like a publication that is not allowed.
	Retained int
	// Queue is how many QoS 1 messages may wait for one session, on their way
	// or while it is offline; default and largest value 65535, one for each
	// packet id. Beyond it an offline session loses the newest messages, which
	// are counted as dropped.
	Queue int
	// Unsent is how many messages may wait on the way to one connection, at 8 bytes each
	// besides their own; default 8192, more than a second of what one client is sent. At half
	// of it publishers at QoS 1 wait, see WriteTimeout; beyond it what comes at QoS 0 is
	// dropped, but for observers, which lose their connection if it was published at QoS 1.
	Unsent int
	// Unwritten is how many bytes of changes may wait in memory while the disk takes
	// nothing, each with 200 bytes more; default 64 MiB, as Retained. What is beyond is
	// forgotten: a restart brings back what stood before.
	Unwritten int

	// ConnectSize is the largest CONNECT in bytes, default 16 KiB: anyone may send one, and
	// the will of a participant with as much user data as it may have fits. A longer one
	// costs its connection before it is read.
	ConnectSize int
	// Unauthenticated is the number of connections at a time, beside Clients, which have not
	// proven yet who they are; default 4096, so that thousands may connect at once. Each
	// costs about 20 KiB (60 with TLS) and its CONNECT. For one more the oldest is closed.
	// It is lowered to half of the files that the process may have open.
	Unauthenticated int
	// UnauthenticatedPerAddress is the same for one address (of IPv6: one /64); default 256,
	// a large site behind one router. The addresses of this machine, where proxies and
	// whole fleets of programs are, have no such limit unless it is set.
	UnauthenticatedPerAddress int
	// PasswordChecks is how many passwords are checked at a time, each of which keeps a
	// processor busy for tens of milliseconds, and also how many steps of TLS
	// handshakes processed, for milliseconds; default half of the processors. A password
	// that was right before costs nothing.
	PasswordChecks int
	// PasswordWait is how long a client waits for its password to be checked before it is
	// told that the server is busy, or for a step of its TLS handshake; default 10 s, as long
	// as clients wait. Addresses take turns, of IPv6 its networks of 64 bits, and so do
	// the names at one; those that no user has are one name.
	PasswordWait time.Duration
	// Properties is how many MQTT 5 properties a packet may have, user properties
	// included; default 64. Decoding makes up to ten times their bytes of them.
	Properties int
	// Filters is how many filters a SUBSCRIBE or UNSUBSCRIBE may have; default 128, as each
	// may be sent all that is retained.
	Filters int
	// SharedSubscriptions is how many subscriptions beginning with $share one user may have,
	// or without users one session; default 16, as each of them costs every publication
	// that it matches some 15 µs, whoever receives it. One more is refused, with reason
	// 0x97 in MQTT 5.
	SharedSubscriptions int
	// TopicLevels is how many levels a topic name or filter may have; default 32, three
	// times what padme uses. Each costs a node of a tree.
	TopicLevels int

	// The next four bound what one user has of the broker at a time. Without
	// Config.Users there are no users to tell apart, and they do not apply.

	// UserClients is the number of its connections, default 100; an observer may
	// have a quarter of it. One more is refused: with reason 0x97 (quota exceeded)
	// in MQTT 5, with 3 (unavailable) in MQTT 3.1.1. So is what is beyond
	// UserSessions.
	UserClients int
	// UserSessions is the number of its sessions that outlive their connection,
	// absent or not, default 16. An observer has none: its sessions end with
	// their connections.
	UserSessions int
	// UserSubscriptions is the number of filters to which all its sessions
	// together are subscribed, default 10000. One more is refused.
	UserSubscriptions int
	// UserQueue is how many bytes of QoS 1 messages may wait for all its absent
	// sessions together, each message counted with its topic, its properties and
	// 1024 bytes more, or its bytes on disk if they are more; default 64 MiB. Beyond it they
	// lose the newest messages, which are counted as dropped. As much may be on its way to all
	// its connections without being acknowledged; beyond it, one that has more than its part, a
	// UserClients-th, has its publishers wait as if its queue were full, see WriteTimeout. Of
	// messages at QoS 0 as much may wait to be sent to all its connections; beyond it, one that
	// has more than its part loses those that come, or if it observes and they were published
	// at QoS 1, its connection. Of what is retained, 80 bytes a message may be yet to be sent to
	// all its connections; beyond it, one more that subscribes to some is closed if the others do
	// not read on within WriteTimeout. Without users, each connection may have as much.
	UserQueue int
	// Absent is how many bytes of QoS 1 messages may wait for the absent sessions of all users
	// together, counted as for UserQueue; default 256 MiB. Beyond it the sessions of users that
	// have more than a 64th of UserQueue waiting lose the newest messages.
	Absent int
	// UserRate is how many packets a second a user may send while others send, too, each 2
	// KiB, and each 50 µs of processing, counted as one; default 10000, which is at most half
	// a processor. It is held back beyond that, and loses nothing;
	// alone it is as fast as the broker.
	UserRate int
	// UserWildcards is how many of its sessions may be subscribed to filters with a wildcard
	// among their first five levels, such as "#": each of them costs whatever anybody
	// publishes. Default 8; for an observer, who pays with nothing else, a quarter of
	// UserClients if that is more. All of them together may have 16 times as many such filters
	// as UserWildcards. One more filter is refused.
	UserWildcards int
	// SessionExpiry is for how long a session waits for its client to come back,
	// of MQTT 3.1.1 too, in whole seconds, rounded up; default 72 h. An MQTT 5
	// client that asks for more is told. A restart of the broker begins it anew.
	SessionExpiry time.Duration
}

const (
	maxQueue = 65535

	// defaultPerAddress is that of UnauthenticatedPerAddress, which is for others than
	// the addresses of this machine.
	defaultPerAddress = 256
	// maxSessionExpiry keeps a sum of times in seconds far from mochi's own expiry.
	maxSessionExpiry = 10 * 365 * 24 * time.Hour
)

// observers is the largest packet of one: what waits for a turn is decoded already, in twice its
// bytes.
func (l *Limits) observers() int { return max(l.PacketSize/16, min(l.PacketSize, 16<<10)) }

// highWater is how many QoS 1 packets may wait on the way to a connection until publishers
// wait. What is left of mochi's channel belongs to QoS 0, which mochi drops when that is full.
func (l *Limits) highWater() int64 { return int64(l.Unsent / 2) }

// counted sets the defaults of what is a number within bounds, most of which is counted
// before mochi decodes it.
func (l *Limits) counted() error {
	if l.PasswordWait < 0 {
		return fmt.Errorf("%w: a negative limit in %+v: use 0 for the default", ErrInvalidConfig, *l)
	}
	if l.PasswordWait == 0 {
		l.PasswordWait = 10 * time.Second
	}
	if l.UnauthenticatedPerAddress < 0 {
		return fmt.Errorf("%w: a negative limit in %+v: use 0 for the default", ErrInvalidConfig, *l)
	}
	for _, f := range []struct {
		value       *int
		byDefault   int
		name        string
		least, most int
	}{
		{&l.ConnectSize, 16 << 10, "ConnectSize", 128, 1 << 20},
		{&l.Unauthenticated, 4096, "Unauthenticated", 1, 1 << 24},
		{&l.PasswordChecks, (runtime.GOMAXPROCS(0) + 1) / 2, "PasswordChecks", 1, 1 << 10},
		{&l.Properties, 64, "Properties", 1, 1 << 16},
		{&l.Filters, 128, "Filters", 1, 1 << 16},
		{&l.SharedSubscriptions, 16, "SharedSubscriptions", 1, 1 << 16},
		{&l.TopicLevels, 32, "TopicLevels", 8, 1 << 10},
		{&l.Unsent, 8192, "Unsent", 64, 1 << 20},
		{&l.Unwritten, 64 << 20, "Unwritten", 1, 1<<31 - 1},
	} {
		if *f.value == 0 {
			*f.value = f.byDefault
		}
		if *f.value < f.least || *f.value > f.most {
			return fmt.Errorf("%w: Limits.%s %d: choose %d to %d", ErrInvalidConfig, f.name, *f.value, f.least, f.most)
		}
	}
	return nil
}

// fitFiles leaves half of the files that may be open to clients and the data directory, and
// reports whether it lowered anything for that.
func (l *Limits) fitFiles(files uint64) bool {
	if files == 0 || uint64(l.Unauthenticated) <= files/2 {
		return false
	}
	l.Unauthenticated = max(1, int(files/2))
	return true
}

// DefaultLimits returns what the zero Limits stand for.
func DefaultLimits() Limits {
	l, err := Limits{}.withDefaults()
	if err != nil {
		panic(err) // they are constants
	}
	return l
}

func (l Limits) withDefaults() (Limits, error) {
	if l.PacketSize < 0 || l.Clients < 0 || l.ConnectTimeout < 0 || l.WriteTimeout < 0 || l.Queue < 0 || l.Retained < 0 ||
		l.UserClients < 0 || l.UserSessions < 0 || l.UserSubscriptions < 0 || l.UserQueue < 0 || l.Absent < 0 || l.UserRate < 0 || l.UserWildcards < 0 || l.SessionExpiry < 0 {
		return l, fmt.Errorf("%w: a negative limit in %+v: use 0 for the default", ErrInvalidConfig, l)
	}
	if l.PacketSize == 0 {
		l.PacketSize = 1 << 20
	}
	if l.PacketSize < 128 || l.PacketSize > 256<<20 {
		return l, fmt.Errorf("%w: Limits.PacketSize %d: choose 128 bytes to 256 MiB", ErrInvalidConfig, l.PacketSize)
	}
	if l.Clients == 0 {
		l.Clients = 4096
	}
	if l.ConnectTimeout == 0 {
		l.ConnectTimeout = 10 * time.Second // as long as clients of ours wait: a process among hundreds that start may need it
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = 5 * time.Second // longer than a Wi-Fi roam, shorter than an operator's patience
	}
	if l.Retained == 0 {
		l.Retained = 64 << 20
	}
	if err := l.counted(); err != nil {
		return l, err
	}
	if l.Queue == 0 {
		l.Queue = maxQueue
	}
	if l.UserClients == 0 {
		l.UserClients = 100 // a publication to all of them takes 2 ms, and the connections of 40 such users fit
	}
	if l.UserSessions == 0 {
		l.UserSessions = 16 // each costs 100 KB without its messages, and every publication that it receives
	}
	if l.UserSubscriptions == 0 {
		l.UserSubscriptions = 10_000 // some ten megabytes
	}
	if l.UserQueue == 0 {
		l.UserQueue = 64 << 20 // as Retained
	}
	if l.Absent == 0 {
		l.Absent = 256 << 20 // four users' part; in memory it is twice as much
	}
	if l.UserRate == 0 {
		l.UserRate = 10_000 // twice a member that locks as fast as it can, a quarter of what two processors do
	}
	if l.UserWildcards == 0 {
		l.UserWildcards = 8 // each makes a publication take some microseconds longer
	}
	if l.SessionExpiry == 0 {
		l.SessionExpiry = 72 * time.Hour // a device that was off over the weekend finds its messages
	}
	if l.SessionExpiry > maxSessionExpiry {
		return l, fmt.Errorf("%w: Limits.SessionExpiry %v: choose at most %v", ErrInvalidConfig, l.SessionExpiry, maxSessionExpiry)
	}
	if l.Queue > maxQueue {
		return l, fmt.Errorf("%w: Limits.Queue %d exceeds the %d packet ids of MQTT", ErrInvalidConfig, l.Queue, maxQueue)
	}
	return l, nil
}
