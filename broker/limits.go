package broker

import (
	"fmt"
	"time"
)

// Limits bounds what clients can make the broker spend. A zero field means its
// default.
type Limits struct {
	// PacketSize is the largest MQTT packet in bytes, default 1 MiB. A client
	// that announces more is disconnected before anything is allocated.
	PacketSize int
	// Clients is the number of connections at a time, those that have not yet
	// said who they are included; default 4096. One more is closed at once.
	Clients int
	// ConnectTimeout is how long a connection may take from being accepted to
	// a complete CONNECT, TLS and WebSocket handshakes included; default 5 s.
	ConnectTimeout time.Duration
	// WriteTimeout is how long a client may refuse to take what is sent to it,
	// or leave a full queue unacknowledged, before it is disconnected; default
	// 5 s. It is also the longest that one stalled subscriber delays a
	// publisher.
	WriteTimeout time.Duration
	// Retained is how many bytes of retained messages one user may keep, each
	// counted with its topic and 512 bytes more, default 64 MiB; those without a
	// name share one account. What is beyond is refused like a publication that
	// is not allowed.
	Retained int
	// Queue is how many QoS 1 messages may wait for one session, on their way
	// or while it is offline; default and largest value 65535, one for each
	// packet id. Beyond it an offline session loses the newest messages, which
	// are counted as dropped.
	Queue int
}

const (
	maxQueue = 65535

	// maxConnectSize bounds the first packet, which anyone may send: a will of
	// some size fits, a thousand strangers cost little.
	maxConnectSize = 64 << 10

	// pendingWrites is mochi's per-client channel of packets to write, 8 bytes
	// for each slot. At highWater waiting QoS 1 packets publishers wait; what
	// is left belongs to QoS 0, which mochi drops when the channel is full.
	pendingWrites = 8192
	highWater     = 4096
)

func (l Limits) withDefaults() (Limits, error) {
	if l.PacketSize < 0 || l.Clients < 0 || l.ConnectTimeout < 0 || l.WriteTimeout < 0 || l.Queue < 0 || l.Retained < 0 {
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
		l.ConnectTimeout = 5 * time.Second // a TLS handshake over a bad radio link takes two
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = 5 * time.Second // longer than a Wi-Fi roam, shorter than an operator's patience
	}
	if l.Retained == 0 {
		l.Retained = 64 << 20 // a hundred thousand small ones
	}
	if l.Queue == 0 {
		l.Queue = maxQueue
	}
	if l.Queue > maxQueue {
		return l, fmt.Errorf("%w: Limits.Queue %d exceeds the %d packet ids of MQTT", ErrInvalidConfig, l.Queue, maxQueue)
	}
	return l, nil
}
