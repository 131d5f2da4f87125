package broker

import (
	"fmt"
	"math"
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
	// busy". Observers and clients of locks leave an eighth to others.
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
	// of milliseconds of a processor, and for how many connections without a login the
	// broker processes what they have sent at a time, such as TLS handshakes, which takes
	// milliseconds; default half of the processors. Checking a password that was accepted
	// before costs nothing.
	PasswordChecks int
	// PasswordWait is how long a client waits for its password to be checked, before it is
	// refused with "server busy", or for what it sends before that to be processed; default
	// 10 s, as long as clients wait. Addresses (for IPv6, networks of 64 bits) take turns,
	// and so do the names at one address. All names that do not exist count as one name.
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

// bound is a field of Limits, its flag of "pubsub-node broker", its default and its range.
type bound struct {
	field, flag string
	number      *int           // either this
	duration    *time.Duration // or that
	byDefault   int64
	least, most int64
}

// bounds are those of all fields.
func (l *Limits) bounds() []bound {
	n := func(field, flag string, p *int, byDefault, least, most int) bound {
		return bound{field, flag, p, nil, int64(byDefault), int64(least), int64(most)}
	}
	d := func(field, flag string, p *time.Duration, byDefault, most time.Duration) bound {
		return bound{field, flag, nil, p, int64(byDefault), 1, int64(most)}
	}
	const unbounded, forever = math.MaxInt, math.MaxInt64
	return []bound{
		n("PacketSize", "max-packet", &l.PacketSize, 1<<20, 128, 256<<20),
		n("Clients", "max-clients", &l.Clients, 4096, 1, unbounded),
		d("ConnectTimeout", "connect-timeout", &l.ConnectTimeout, 10*time.Second, forever), // as long as clients of ours wait: a process among hundreds that start may need it
		d("WriteTimeout", "write-timeout", &l.WriteTimeout, 5*time.Second, forever),        // longer than a Wi-Fi roam, shorter than an operator's patience
		n("Retained", "max-retained", &l.Retained, 64<<20, 1, unbounded),
		n("Queue", "max-queue", &l.Queue, maxQueue, 1, maxQueue), // the packet ids of MQTT
		n("Unsent", "max-unsent", &l.Unsent, 8192, 64, 1<<20),
		n("Unwritten", "max-unwritten", &l.Unwritten, 64<<20, 1, 1<<31-1),
		n("ConnectSize", "max-connect-size", &l.ConnectSize, 16<<10, 128, 1<<20),
		n("Unauthenticated", "max-unauthenticated", &l.Unauthenticated, 4096, 1, 1<<24),
		n("UnauthenticatedPerAddress", "max-unauthenticated-per-address", &l.UnauthenticatedPerAddress, 0, 0, unbounded), // see defaultPerAddress
		n("PasswordChecks", "max-password-checks", &l.PasswordChecks, (runtime.GOMAXPROCS(0)+1)/2, 1, 1<<10),
		d("PasswordWait", "max-password-wait", &l.PasswordWait, 10*time.Second, forever),
		n("Properties", "max-properties", &l.Properties, 64, 1, 1<<16),
		n("Filters", "max-filters", &l.Filters, 128, 1, 1<<16),
		n("SharedSubscriptions", "max-shared-subscriptions", &l.SharedSubscriptions, 16, 1, 1<<16),
		n("TopicLevels", "max-topic-levels", &l.TopicLevels, 32, 8, 1<<10),
		n("UserClients", "max-user-clients", &l.UserClients, 100, 1, unbounded),                      // a publication to all of them takes 2 ms, and the connections of 40 such users fit
		n("UserSessions", "max-user-sessions", &l.UserSessions, 16, 1, unbounded),                    // each costs 100 KB without its messages, and every publication that it receives
		n("UserSubscriptions", "max-user-subscriptions", &l.UserSubscriptions, 10_000, 1, unbounded), // some ten megabytes
		n("UserQueue", "max-user-queue", &l.UserQueue, 64<<20, 1, unbounded),                         // as Retained
		n("Absent", "max-absent", &l.Absent, 256<<20, 1, unbounded),                                  // four users' part; in memory it is twice as much
		n("UserRate", "max-user-rate", &l.UserRate, 10_000, 1, unbounded),                            // twice a member that locks as fast as it can, a quarter of what two processors do
		n("UserWildcards", "max-user-wildcards", &l.UserWildcards, 8, 1, unbounded),                  // each makes a publication take some microseconds longer
		d("SessionExpiry", "session-expiry", &l.SessionExpiry, 72*time.Hour, maxSessionExpiry),       // a device that was off over the weekend finds its messages
	}
}

// LimitError says that a field of Limits is out of its range. It wraps ErrInvalidConfig.
type LimitError struct {
	Field, Flag string // of Limits, and of "pubsub-node broker"
	Value       string
	Range       string // such as "1 to 1024", or "at least 1"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: Limits.%s %s: choose %s, or 0 for the default", ErrInvalidConfig, e.Field, e.Value, e.Range)
}

func (e *LimitError) Unwrap() error { return ErrInvalidConfig }

// check sets the default, and reports a value that is out of range.
func (b *bound) check() error {
	text := func(v int64) string { return fmt.Sprint(v) }
	var v int64
	if b.duration != nil {
		text = func(v int64) string { return time.Duration(v).String() }
		if *b.duration == 0 {
			*b.duration = time.Duration(b.byDefault)
		}
		v = int64(*b.duration)
	} else {
		if *b.number == 0 {
			*b.number = int(b.byDefault)
		}
		v = int64(*b.number)
	}
	if v >= b.least && v <= b.most {
		return nil
	}
	e := &LimitError{Field: b.field, Flag: b.flag, Value: text(v), Range: text(b.least) + " to " + text(b.most)}
	switch {
	case b.duration != nil && b.most == math.MaxInt64:
		e.Range = "more than 0"
	case b.most == math.MaxInt:
		e.Range = "at least " + text(b.least)
	case b.duration != nil:
		e.Range = "at most " + text(b.most)
	}
	return e
}

// Check reports the first field that is out of its range, as Start would, in a *LimitError.
func (l Limits) Check() error {
	_, err := l.withDefaults()
	return err
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
	for _, b := range l.bounds() {
		if err := b.check(); err != nil {
			return l, err
		}
	}
	return l, nil
}
