package pubsub

import (
	"context"
	"crypto/tls"
	"net"

	"padme/pubsub/internal/connection"
)

// DialBroker opens the byte stream to a broker as Join does, for programs that carry the
// MQTT of others: to the first of the comma-separated URLs that answers. What is read and
// written is MQTT for every scheme, including ws. config may be nil. An invalid URL, or
// with a config one without TLS, is an error that wraps ErrInvalid.
func DialBroker(ctx context.Context, rawURL string, config *tls.Config) (net.Conn, error) {
	return connection.Dial(ctx, rawURL, config)
}
