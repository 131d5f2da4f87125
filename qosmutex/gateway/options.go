package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex"
)

type options struct {
	only    []string // lock topics; none: all
	ready   func()
	log     *slog.Logger
	metrics prometheus.Registerer
	limits  Limits
}

// Option configures Serve.
type Option func(*options) error

// WithTopics offers only these lock topics and opens them at once, which creates those that
// do not exist. The default is every lock topic that a client names.
func WithTopics(names ...string) Option {
	return func(o *options) error {
		o.only = append(o.only, names...)
		var errs []error
		for _, name := range names {
			errs = append(errs, CheckTopic(name))
		}
		return errors.Join(errs...)
	}
}

// CheckTopic reports why a lock topic cannot be offered to clients; the error wraps
// qosmutex.ErrInvalidName.
func CheckTopic(name string) error {
	if err := pubsub.CheckName(name); err != nil {
		return fmt.Errorf("%w: lock topic: %w", qosmutex.ErrInvalidName, err)
	}
	if topic, resource, ok := strings.Cut(name, "/"); ok {
		return fmt.Errorf("%w: lock topic %q has a slash: offer %q, which has resource %q", qosmutex.ErrInvalidName, name, topic, resource)
	}
	if reserved(name) {
		return fmt.Errorf("%w: lock topic %q has a meaning of its own in the protocol: offer another", qosmutex.ErrInvalidName, name)
	}
	return nil
}

// WithReady makes Serve call f once it receives requests.
func WithReady(f func()) Option {
	return func(o *options) error {
		o.ready = f
		return nil
	}
}

// WithLogger sets where the gateway logs; the default is nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l != nil {
			o.log = l
		}
		return nil
	}
}

// WithMetrics registers the gateway's counters until it ends.
func WithMetrics(r prometheus.Registerer) Option {
	return func(o *options) error {
		o.metrics = r
		return nil
	}
}

func optionsOf(opts []Option) (options, error) {
	o := options{ready: func() {}, log: slog.New(slog.DiscardHandler), limits: DefaultLimits()}
	var errs []error
	for _, opt := range opts {
		if opt != nil {
			errs = append(errs, opt(&o))
		}
	}
	return o, errors.Join(errs...)
}
