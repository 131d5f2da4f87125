package broker

import (
	"errors"
	"os"

	"github.com/mochi-mqtt/server/v2/packets"

	"padme/broker/internal/wire"
)

// Why a connection was ended. Refused names, passwords and wills are counted as
// refused.
const (
	cutTLS       = iota // no TLS on a TLS port, or no certificate, or a bad one
	cutTimeout          // no CONNECT in time, or nothing for longer than the keepalive
	cutProtocol         // what came is not MQTT
	cutOversized        // a packet longer than it may be
	cuts
)

var cutNames = [cuts]string{"tls", "timeout", "protocol", "oversized"}

var (
	errNotMQTT   = errors.New("broker: not MQTT")
	errOversized = errors.New("broker: packet too large")
)

// noteCut counts what ended a connection, unless it is the usual, a client or a
// network that has gone, and the limit if it was one.
func (b *Broker) noteCut(c *conn, err error) {
	var code packets.Code
	var beyond *wire.LimitError
	cut, address := &b.counts.cut, c.RemoteAddr().String()
	if c.stalled.Load() && !c.shortened.Load() {
		b.limited("write-timeout", string(c.user), address)
	}
	switch {
	case err == nil:
	case errors.As(err, &beyond):
		b.beyond(beyond.What, string(c.user), address)
	case errors.Is(err, os.ErrDeadlineExceeded):
		cut[cutTimeout].Add(1)
		if c.client.Load() == nil {
			b.limited("connect-timeout", "", address)
		}
	case errors.Is(err, errOversized):
		cut[cutOversized].Add(1)
		b.limited("max-connect-size", "", address)
	case errors.Is(err, packets.ErrPacketTooLarge):
		cut[cutOversized].Add(1)
		b.limited("max-packet", string(c.user), address)
	case errors.Is(err, errNotMQTT), errors.Is(err, wire.ErrMalformed), errors.As(err, &code) && malformed(code):
		cut[cutProtocol].Add(1)
	}
}

// malformed reports whether a reason is that of a packet or its length.
func malformed(c packets.Code) bool {
	return c.Code == packets.ErrMalformedPacket.Code || c.Code == packets.ErrProtocolViolation.Code
}

// beyond counts a packet that held too many of something.
func (b *Broker) beyond(what wire.Kind, user, address string) {
	switch what {
	case wire.Properties:
		b.limited("max-properties", user, address)
	case wire.Filters:
		b.limited("max-filters", user, address)
	case wire.Levels:
		b.limited("max-topic-levels", user, address)
	case wire.Bytes:
		b.counts.cut[cutOversized].Add(1)
		b.limited("max-packet", user, address)
	}
}
