package broker

import (
	"fmt"
	"runtime"
	"time"
)

// Limits bounds what clients can make the broker spend. A zero field means its
// default.
type Limits struct {
	// PacketSize is the largest MQTT packet in bytes, default 1 MiB. A client that
	// announces more is disconnected before anything is allocated. An observer, which may
	// only subscribe, may send a sixteenth of it, or 16 KiB if that is more and below
	// PacketSize.
	PacketSize int
	// Clients is how many clients may be connected at a time, counted once they are
	// authenticated if there are Users; default 4096. One more is refused with "server
	// busy".
	Clients int
	// ConnectTimeout is how long a connection may take from being accepted to a complete
	// CONNECT, including TLS and WebSocket handshakes; default 10 s.
	ConnectTimeout time.Duration
	// WriteTimeout is how long a client may read nothing, or leave a full queue
	// unacknowledged, before it is disconnected; default 5 s. It is also the longest time
	// that one stalled subscriber delays a publisher. While publishers wait, a subscriber
	// that takes an eighth of a full queue, or 4 MiB, gets the full time again, and
	// proportionally less for less.
	WriteTimeout time.Duration
	// Retained is how many bytes of retained messages one user may keep, each counted with
	// what it costs: payload, properties, 640 bytes for each level of its topic and 1280
	// more, or its bytes on disk if they are more; default 64 MiB, about nine thousand
	// small messages. The same amount again is reserved for the messages of participants
	// and locks, so that a user that has used up the former with samples can still join and
	// lock. Without users all clients count as one user. A message beyond the limit is
	// refused like a publication that is not allowed.
	Retained int
	// Queue is how many QoS 1 messages may wait for one session, in transit or while it is
	// offline; default and largest value 65535, one for each packet id. Beyond it an
	// offline session loses the newest messages, which are counted as dropped.
	Queue int
	// Unsent is how many messages may wait to be sent on one connection, at 8 bytes each
	// besides their own; default 8192, more than a second of what one client is sent. From
	// half of it on, publishers at QoS 1 wait, see WriteTimeout. Beyond it messages at QoS
	// 0 are dropped; an observer instead loses its connection if the message was published
	// at QoS 1.
	Unsent int
	// Unwritten is how many bytes of changes may wait in memory while the disk accepts
	// nothing, each counted with 200 bytes more; default 64 MiB, as Retained. Changes
	// beyond it are lost: a restart brings back the previous state.
	Unwritten int

	// ConnectSize is the largest CONNECT in bytes, default 16 KiB. Any client may send one,
	// and the will of a participant with the most user data that it may have fits. A longer
	// one ends its connection before it is read.
	ConnectSize int
	// Unauthenticated is how many connections, in addition to Clients, may not have
	// authenticated yet; default 4096, so that thousands may connect at once. Each costs
	// about 20 KiB (60 with TLS) and its CONNECT. For one more the oldest is closed. The
	// value is lowered to half of the files that the process may have open.
	Unauthenticated int
	// UnauthenticatedPerAddress is the same for one address (for IPv6: one /64); default
	// 256, enough for a large site behind one router. The addresses of this machine, which
	// proxies and whole fleets of programs use, have no such limit unless it is set.
	UnauthenticatedPerAddress int
	// PasswordChecks is how many passwords are checked at a time, each of which takes tens
	// of milliseconds of a processor, and how many steps of TLS handshakes are processed at
	// a time, which take milliseconds; default half of the processors. Checking a password
	// that was accepted before costs nothing.
	PasswordChecks int
	// PasswordWait is how long a client waits for its password to be checked, or for a step
	// of its TLS handshake, before it is refused with "server busy"; default 10 s, as long
	// as clients wait. Addresses (for IPv6, networks of 64 bits) take turns, and so do the
	// names at one address. All names that do not exist count as one name.
	PasswordWait time.Duration
	// Properties is how many MQTT 5 properties a packet may have, including user
	// properties; default 64. Decoded they take up to ten times their bytes.
	Properties int
	// Filters is how many filters a SUBSCRIBE or UNSUBSCRIBE may have; default 128, because
	// the answer to each may be every retained message.
	Filters int
	// SharedSubscriptions is how many subscriptions that begin with $share one user, or
	// without users one session, may have; default 16, because each costs every publication
	// that it matches about 15 µs, whichever client receives it. One more is refused, with
	// reason 0x97 in MQTT 5.
	SharedSubscriptions int
	// TopicLevels is how many levels a topic name or filter may have; default 32, three
	// times what padme uses. Each costs a node of a tree.
	TopicLevels int

	// The next four bound what one user has of the broker at a time. Without
	// Config.Users there are no users to tell apart, and they do not apply.

	// UserClients is how many connections one user may have, default 100; an observer may
	// have a quarter of it. One more is refused: with reason 0x97 (quota exceeded) in MQTT
	// 5, with 3 (unavailable) in MQTT 3.1.1. The same applies to UserSessions.
	UserClients int
	// UserSessions is how many sessions of one user may outlive their connection, connected
	// or not, default 16. An observer has none: its sessions end with their connections.
	UserSessions int
	// UserSubscriptions is how many filters all sessions of one user together may be
	// subscribed to, default 10000. One more is refused.
	UserSubscriptions int
	// UserQueue is how many bytes of QoS 1 messages may wait for all absent sessions of one
	// user together, each message counted with its topic, its properties and 1024 bytes
	// more, or its bytes on disk if they are more; default 64 MiB. Beyond it the sessions
	// lose the newest messages, which are counted as dropped.
	//
	// It also bounds three other amounts, each for all connections of a user together, or
	// without users for each connection. Messages that were sent and are not acknowledged:
	// beyond it, a connection that has more than its share, a UserClients-th, makes its
	// publishers wait as if its queue were full, see WriteTimeout. Messages at QoS 0 that
	// wait to be sent: beyond it, a connection that has more than its share loses new ones
	// or, if it is an observer's and they were published at QoS 1, is closed. Retained
	// messages yet to be sent, at 80 bytes each: beyond it, a connection that subscribes to
	// more of them is closed if the others do not read on within WriteTimeout.
	UserQueue int
	// Absent is how many bytes of QoS 1 messages may wait for the absent sessions of all
	// users together, counted as for UserQueue; default 256 MiB. Beyond it, sessions of
	// users that have more than a 64th of UserQueue waiting lose the newest messages.
	Absent int
	// UserRate is how many packets a second one user may send while others send, too;
	// default 10000, at most half a processor. Each 2 KiB, and each 50 µs of processing,
	// count as one packet. Beyond the rate the user is slowed down and loses nothing. While
	// no other user sends, there is no limit.
	UserRate int
	// UserWildcards is how many sessions of one user may be subscribed to filters with a
	// wildcard among their first five levels, such as "#"; default 8, because each adds to
	// the cost of every publication. For an observer it is a quarter of UserClients if that
	// is more, because it costs the broker nothing else. All of these sessions together may
	// have 16 times as many such filters as UserWildcards. One more filter is refused.
	UserWildcards int
	// SessionExpiry is how long a session, also one of MQTT 3.1.1, waits for its client to
	// come back, in whole seconds, rounded up; default 72 h. An MQTT 5 client that asks for
	// more is told this value. A restart of the broker starts the time again.
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

// DefaultLimits returns the limits that the zero Limits stand for.
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
