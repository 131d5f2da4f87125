package qosmutex

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
)

const (
	defaultPriority = 100 // leaves room on both sides
)

type options struct {
	create    bool
	listened  bool              // for a root of another register, before
	register  register.Register // nil: this participant cannot be the root
	resources []string          // sorted
	open      bool
	models    Models
	timing    Timing
	priority  int64
	parent    string
	fanout    int
	trust     bool
	algorithm protocol.Algorithm
	members   []string
	log       *slog.Logger
	metrics   prometheus.Registerer
	events    bool
	clock     func() protocol.Time

	// What was given is declared, and must be what is in force.
	givenModels, givenResources, givenTiming bool
}

func defaultOptions() options {
	return options{
		timing:    protocol.LAN(),
		priority:  defaultPriority,
		algorithm: padme.Algorithm,
		log:       slog.New(slog.DiscardHandler),
		events:    true,
		clock:     bootTime,
	}
}

// Option configures Open.
type Option func(*options) error

// Create creates the lock topic if the register has none of that name, and makes this
// participant a candidate: it can become the topic's root. Without WithRegister the
// register is one in the memory of this process, for this topic alone: that suits tests,
// and topics that end with the process that created them. No other participant can be the root
// then, and nothing is granted for a TTL after the creation, for there may have been a
// topic of that name before, which no participant remembers. Two participants that create the
// same topic without a common register are two roots, and both grant: let one create
// it, or give both the same register.
func Create() Option {
	return func(o *options) error {
		o.create = true
		return nil
	}
}

// WithRegister makes this participant a candidate of the topic, which can become its
// root: r keeps who is the root. All candidates of a topic must have the same register.
// The caller closes r after the topic.
func WithRegister(r register.Register) Option {
	return func(o *options) error {
		o.register = r
		if r == nil {
			return fmt.Errorf("%w: the register is nil", ErrInvalidConfig)
		}
		return nil
	}
}

// WithResources declares the resources of the topic. Any chooses among them.
func WithResources(ids ...string) Option {
	return func(o *options) error {
		for _, id := range ids {
			if err := checkResource(id); err != nil {
				return err
			}
		}
		o.givenResources = true
		o.resources = append(o.resources, ids...)
		slices.Sort(o.resources)
		o.resources = slices.Compact(o.resources)
		return nil
	}
}

// WithOpenResources accepts any resource id in addition to those declared.
func WithOpenResources() Option {
	return func(o *options) error {
		o.givenResources, o.open = true, true
		return nil
	}
}

// openByDefault accepts any resource id as long as nobody declares which there are.
func openByDefault(o *options) error {
	o.open = true
	return nil
}

// WithModels sets the models of the topic. The default is those in force, and
// for who creates the topic Level-Forward-Forward-Forward.
func WithModels(m Models) Option {
	return func(o *options) error {
		o.givenModels, o.models = true, m
		if m.Priority > Deadline || m.Request > RequestReplace || m.Reply > Use || m.Release > Use {
			return fmt.Errorf("%w: models %+v: take the constants of this package or ParseModels", ErrInvalidConfig, m)
		}
		return nil
	}
}

// WithTiming sets the time constants; the default is LAN. The TTL must be that
// in force.
func WithTiming(timing Timing) Option {
	return func(o *options) error {
		o.givenTiming, o.timing = true, timing
		if err := timing.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
		}
		return nil
	}
}

// WithNodePriority sets the participant's priority: its place in the tree and
// the priority of its requests. Smaller is more important; the default is 100.
func WithNodePriority(priority int64) Option {
	return func(o *options) error {
		o.priority = priority
		return nil
	}
}

// WithParent attaches to the participant with this id and to no other.
func WithParent(id string) Option {
	return func(o *options) error {
		o.parent = id
		return checkName("parent", id)
	}
}

// WithFanout sets how many children this participant takes; the default is 8.
func WithFanout(n int) Option {
	return func(o *options) error {
		o.fanout = n
		if n < 1 || n > 1024 {
			return fmt.Errorf("%w: fan-out %d, give 1 to 1024", ErrInvalidConfig, n)
		}
		return nil
	}
}

// WithTrustedWills takes the broker's word that a participant has ended, by its last
// will: its holds are over at once, and not after the TTL. The price: a broker
// publishes the will of any client that it has lost touch with, also of one that
// works on; then two may believe that they hold, until the first one hears of it.
// Fences rise all the same. It counts at the root; each participant may become it.
func WithTrustedWills() Option {
	return func(o *options) error {
		o.trust = true
		return nil
	}
}

// WithLogger sets where the topic logs; the default is nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l != nil {
			o.log = l
		}
		return nil
	}
}

// WithMetrics registers the topic's metrics, labelled with participant and topic,
// until it ends.
func WithMetrics(r prometheus.Registerer) Option {
	return func(o *options) error {
		o.metrics = r
		return nil
	}
}

// WithEvents says whether the topic publishes this participant's lock events;
// the default is true. Without them the published states do not tell that it is
// inside: the root hears of entries by events alone, but for its own, and for those
// that it asks about.
func WithEvents(on bool) Option {
	return func(o *options) error {
		o.events = on
		return nil
	}
}

// WithClock replaces the clock that sessions are measured with. It must never
// run backwards, drift less than Timing.Drift and count the time in which the
// machine sleeps; it is for virtual time and for platforms whose monotonic clock
// stops.
func WithClock(now func() protocol.Time) Option {
	return func(o *options) error {
		o.clock = now
		if now == nil {
			return fmt.Errorf("%w: the clock is nil", ErrInvalidConfig)
		}
		return nil
	}
}

// checkName refuses what is not one level of an MQTT topic.
func checkName(what, name string) error {
	if _, err := pubsub.EncodeLevel(name); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalidName, what, err)
	}
	return nil
}

// reserved names a level of the topic names of states, which no resource may be named after.
var reserved = []string{Any, "join", "client", "member"}

func checkResource(id string) error {
	if slices.Contains(reserved, id) {
		return fmt.Errorf("%w: resource %q is reserved (as are %s)", ErrInvalidName, id, strings.Join(reserved, ", "))
	}
	return checkName("resource", id)
}

// optionsOf applies opts and reports everything that is wrong with them.
func optionsOf(opts []Option) (options, error) {
	o := defaultOptions()
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&o))
	}
	errs = append(errs, o.checkMembers())
	if o.create && o.register == nil {
		o.register = local.Memory()
	}
	return o, errors.Join(errs...)
}
