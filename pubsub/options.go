package pubsub

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub/internal/discovery"
)

const (
	defaultPrefix = "padme"
	defaultDomain = "default"
	// defaultKeepAlive finds a silent broker within about ten seconds, and the
	// broker us within eight. A longer one lets a stalled subscriber hold up its
	// publishers for longer.
	defaultKeepAlive = 5 * time.Second
	// minKeepAlive: with one second, clients of some brokers flap.
	minKeepAlive = 2 * time.Second
)

type options struct {
	prefix, domain string
	user, password string
	tls            *tls.Config
	dialer         func(context.Context) (net.Conn, error)
	keepAlive      time.Duration
	userData       map[string]string
	log            *slog.Logger
	metrics        prometheus.Registerer
	takeover       bool
	unannounced    bool
	willLevels     []string // nil: no will of its own
	willPayload    []byte
}

func defaultOptions() options {
	return options{
		prefix:    defaultPrefix,
		domain:    defaultDomain,
		keepAlive: defaultKeepAlive,
		log:       slog.New(slog.DiscardHandler),
	}
}

// Option configures Join.
type Option func(*options) error

// WithPrefix sets the first level of every topic; the default is "padme".
func WithPrefix(prefix string) Option {
	return func(o *options) error {
		o.prefix = prefix
		_, err := EncodeLevel(prefix)
		return err
	}
}

// WithDomain sets the domain; participants of different domains do not see each
// other. The default is "default".
func WithDomain(domain string) Option {
	return func(o *options) error {
		o.domain = domain
		_, err := EncodeLevel(domain)
		return err
	}
}

// WithCredentials sets the MQTT user name and password. A broker that enforces an access
// list expects the participant's id as user name.
func WithCredentials(user, password string) Option {
	return func(o *options) error {
		o.user, o.password = user, password
		if user == "" {
			return fmt.Errorf("%w: the user name is empty, leave WithCredentials out to join anonymously", ErrInvalid)
		}
		return nil
	}
}

// WithTLS sets the TLS configuration for mqtts, ssl and wss; Join then rejects URLs of
// other schemes. If the server name is empty, it is taken from the URL.
func WithTLS(c *tls.Config) Option {
	return func(o *options) error {
		o.tls = c
		return nil
	}
}

// WithDialer replaces how the byte stream to the broker is opened, for example
// by the in-process connection of an embedded broker. The URL is then only a
// label.
func WithDialer(dial func(context.Context) (net.Conn, error)) Option {
	return func(o *options) error {
		o.dialer = dial
		if dial == nil {
			return fmt.Errorf("%w: the dialer is nil", ErrInvalid)
		}
		return nil
	}
}

// WithKeepAlive sets the MQTT keep-alive, at least 2 s; the default is 5 s. A dead
// connection is detected after at most two keep-alives. MQTT counts whole seconds: d is
// rounded up.
func WithKeepAlive(d time.Duration) Option {
	return func(o *options) error {
		o.keepAlive = (d + time.Second - 1).Truncate(time.Second)
		if d < minKeepAlive || d > time.Hour {
			return fmt.Errorf("%w: keep-alive %v, give %v to 1h", ErrInvalid, d, minKeepAlive)
		}
		return nil
	}
}

// WithUserData publishes data with this participant's presence. As JSON it may have 8 KiB:
// it is also in the last will, and brokers limit the size of a CONNECT.
func WithUserData(data map[string]string) Option {
	return func(o *options) error {
		o.userData = maps.Clone(data)
		encoded, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("%w: user data: %w", ErrInvalid, err)
		}
		if len(encoded) > discovery.MaxUserData {
			return fmt.Errorf("%w: user data of %d bytes as JSON, the most is %d", ErrInvalid, len(encoded), discovery.MaxUserData)
		}
		return nil
	}
}

// WithTakeover makes Join take over the id at once from an earlier incarnation whose
// presence the broker still retains. The caller must know that it has ended. Without this
// option Join asks it, and waits a second for the answer.
func WithTakeover() Option {
	return func(o *options) error {
		o.takeover = true
		return nil
	}
}

// WithLogger sets where the participant logs; the default is nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l != nil {
			o.log = l
		}
		return nil
	}
}

// WithMetrics registers the participant's counters, with its id and domain as
// labels, until it ends.
func WithMetrics(r prometheus.Registerer) Option {
	return func(o *options) error {
		o.metrics = r
		return nil
	}
}
