package broker

import (
	"errors"
	"os"

	"github.com/mochi-mqtt/server/v2/packets"
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

// noteCut counts what ended a connection, unless it is the usual: a client or a
// network that has gone.
func (c *counters) noteCut(err error) {
	var code packets.Code
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.cut[cutTimeout].Add(1)
	case errors.Is(err, errOversized), errors.Is(err, packets.ErrPacketTooLarge):
		c.cut[cutOversized].Add(1)
	case errors.Is(err, errNotMQTT), errors.As(err, &code) && malformed(code):
		c.cut[cutProtocol].Add(1)
	}
}

// malformed reports whether a reason is that of a packet or its length.
func malformed(c packets.Code) bool {
	return c.Code == packets.ErrMalformedPacket.Code || c.Code == packets.ErrProtocolViolation.Code
}
