package gateway

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register"
)

type options struct {
	topics  []string // none: all
	timing  qosmutex.Timing
	lock    []qosmutex.Option
	shared  bool // with other candidates, a register
	log     *slog.Logger
	metrics prometheus.Registerer
}

// Option configures Serve.
type Option func(*options) error

// WithTopics offers these lock topics, and creates them at once. The default is every
// lock topic that a client names.
func WithTopics(names ...string) Option {
	return func(o *options) error {
		o.topics = append(o.topics, names...)
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
	if _, err := pubsub.EncodeLevel(name); err != nil {
		return fmt.Errorf("%w: lock topic: %w", qosmutex.ErrInvalidName, err)
	}
	if reserved(name) {
		return fmt.Errorf("%w: lock topic %q is the gateways' own or a word of the topic contract", qosmutex.ErrInvalidName, name)
	}
	return nil
}

// WithTiming sets the time constants of lock topics that the gateway creates; the
// default is LAN. Where a topic runs, its own count.
func WithTiming(t qosmutex.Timing) Option {
	return func(o *options) error {
		o.timing = t
		return t.Validate()
	}
}

// WithLockOptions hands options to every Open of a lock topic: clocks, logs, metrics.
func WithLockOptions(opts ...qosmutex.Option) Option {
	return func(o *options) error {
		o.lock = append(o.lock, opts...)
		return nil
	}
}

// WithRegister makes this gateway a candidate for the root of every topic that it opens,
// as are all that have the same register. Without it a gateway creates a topic only if
// no root answers, and is its root for as long as it lives.
func WithRegister(r register.Register) Option {
	return func(o *options) error {
		o.shared = true
		o.lock = append(o.lock, qosmutex.WithRegister(r))
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
	o := options{timing: qosmutex.LAN(), log: slog.New(slog.DiscardHandler)}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&o))
	}
	return o, errors.Join(errs...)
}
