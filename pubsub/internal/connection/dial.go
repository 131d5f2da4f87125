package connection

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"padme/pubsub/internal/failure"
)

// defaultPorts are the ports of the URL schemes.
var defaultPorts = map[string]string{
	"mqtt": "1883", "tcp": "1883", "mqtts": "8883", "ssl": "8883", "ws": "80", "wss": "443",
}

// parseURL reads a broker URL; "host:port" alone is mqtt.
func parseURL(raw string) (*url.URL, error) {
	const remedy = `write it as "mqtt://host:1883" (or mqtts, ws, wss)`
	text := raw
	if !strings.Contains(text, "://") {
		text = "mqtt://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: broker URL %q: %w: %s", failure.ErrInvalid, raw, err, remedy)
	}
	port, known := defaultPorts[u.Scheme]
	switch {
	case !known:
		return nil, fmt.Errorf("%w: broker URL %q has the unknown scheme %q: %s", failure.ErrInvalid, raw, u.Scheme, remedy)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: broker URL %q names no host: %s", failure.ErrInvalid, raw, remedy)
	case u.User != nil:
		return nil, fmt.Errorf("%w: the broker URL contains credentials, pass them by WithCredentials instead", failure.ErrInvalid)
	}
	if p := u.Port(); p == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	} else if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("%w: broker URL %q: port %s is not between 1 and 65535: correct it, or leave it out for %s", failure.ErrInvalid, raw, p, port)
	}
	return u, nil
}

// encrypted reports whether the connection to u is one of TLS.
func encrypted(u *url.URL) bool {
	return u.Scheme == "mqtts" || u.Scheme == "ssl" || u.Scheme == "wss"
}

// dialURL opens the byte stream to the broker at u. Go sets TCP_NODELAY.
func dialURL(ctx context.Context, u *url.URL, config *tls.Config) (net.Conn, error) {
	switch u.Scheme {
	case "mqtts", "ssl":
		d := tls.Dialer{Config: config}
		c, err := d.DialContext(ctx, "tcp", u.Host)
		return c, shakeError(err)
	case "ws", "wss":
		return dialWebSocket(ctx, u, config)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", u.Host)
}
