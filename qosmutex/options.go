package qosmutex

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex/internal/limited"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
)

const (
	defaultPriority = 100 // leaves room on both sides
)

type options struct {
	create    bool
	resumes   bool
	listened  bool              // for a root of another register, before
	register  register.Register // nil: this participant cannot be the root
	own       *local.Register   // of a Server: of topics that it creates without register; with one, for its notes
	kept      placed            // of a Server: where to note what outlives the process, unless in register; nil: nowhere
	resources []string          // sorted
	open      bool
	models    Models
	timing    protocol.Timing
	priority  int64
	parent    string
	fanout    int
	trust     bool
	served    bool // by a Server: other processes use what this participant locks, and are told what it is told
	log       *slog.Logger
	metrics   prometheus.Registerer
	labels    *labels // of the server that opens it; nil: none does
	events    bool
	session   string // of a client, and the participant that its last will is of
	willOf    string
	clock     func() protocol.Time
	limits    TopicLimits  // of a Server
	begins    func(*Topic) // of a Server; may be nil
	alike     *alike       // of a Server: has its topics' lines; may be nil
	reached   *limited.Log // of a Server, or of the topic: who goes beyond limits

	substitute func(protocol.Config) (machine, error) // of a test: makes the machine

	// What was given is declared, and must be what is in force.
	givenModels, givenResources, givenTiming bool
	settingsGiven                            int // how many options said something of that
}

func defaultOptions() options {
	return options{
		timing:   protocol.LAN(),
		priority: defaultPriority,
		log:      slog.New(slog.DiscardHandler),
		events:   true,
		clock:    bootTime,
	}
}

// Option configures Open.
type Option func(*options) error

// Resume continues the holds that an earlier process with the same register file had under
// [WithNote] and did not unlock. See [Topic.Resumed]: the caller MUST handle each of them.
// It requires a register in a file (WithRegister, or KeepIn for a Server); with any other
// register it has no effect. Without Resume such holds are over, and the topic waits until
// no client can rely on them any more.
func Resume() Option {
	return func(o *options) error {
		o.resumes = true
		return nil
	}
}

// Create creates the lock topic if the register has none of that name, and makes this
// participant a candidate: it can become the topic's root. Without [WithRegister] the
// register is in the memory of this process and for this topic only, which suits tests and
// topics that end with the process that created them. No other participant can then become
// the root. Nothing is granted for one TTL after creation, in case an earlier topic with
// this name still has holders. If two participants create the same topic without a common
// register, there are two roots, and both grant: let only one create it, or give both the
// same register.
func Create() Option {
	return func(o *options) error {
		o.create = true
		return nil
	}
}

// WithRegister makes this participant a candidate: it can become the root of the topic. r
// records which participant is the root. All candidates of a topic must use the same
// register. The caller closes r after the topic.
func WithRegister(r register.Register) Option {
	return func(o *options) error {
		o.register = r
		if r == nil {
			return fmt.Errorf("%w: the register is nil", ErrInvalidConfig)
		}
		return nil
	}
}

// WithResources declares the resources of the topic, from which Any chooses. The first
// declaration replaces a default, such as that of a broker's lock node, which accepts any
// id. Open returns ErrConflict if other resources were declared before; see
// [Topic.Configure] for a change.
func WithResources(ids ...string) Option {
	return func(o *options) error {
		for _, id := range ids {
			if err := checkResource(id); err != nil {
				return err
			}
		}
		o.giveResources()
		o.resources = append(o.resources, ids...)
		slices.Sort(o.resources)
		o.resources = slices.Compact(o.resources)
		return nil
	}
}

// WithOpenResources accepts any resource id in addition to the declared ones. There is no
// limit to the number of names over time. Of the undeclared resources that are not in use,
// the last 1,024 keep their retained state. The others are forgotten, and their fences
// still rise.
func WithOpenResources() Option {
	return func(o *options) error {
		o.giveResources()
		o.open = true
		return nil
	}
}

// giveResources puts what is said of resources in the place of a default.
func (o *options) giveResources() {
	o.settingsGiven++
	if !o.givenResources {
		o.givenResources, o.resources, o.open = true, nil, false
	}
}

// asDefault says what holds for the topic if this participant creates it: the models,
// resources and timing that opts give. They are a default, which is no declaration: it
// gives way to the first one, by whomever, and Open takes what is in force where the topic
// exists already.
func asDefault(opts ...Option) Option {
	return func(o *options) error {
		d, err := settingsOf(opts)
		if d.givenModels && !o.givenModels {
			o.models = d.models
		}
		if d.givenResources && !o.givenResources {
			o.resources, o.open = d.resources, d.open
		}
		if d.givenTiming && !o.givenTiming {
			o.timing = d.timing
		}
		return err
	}
}

// settingsOf applies options that say what holds for a topic, and refuses others.
func settingsOf(opts []Option) (options, error) {
	var o options
	var errs []error
	opts = slices.DeleteFunc(slices.Clone(opts), func(opt Option) bool { return opt == nil })
	for _, opt := range opts {
		errs = append(errs, opt(&o))
	}
	err := errors.Join(errs...)
	if err == nil && o.settingsGiven != len(opts) { // one that is wrong may not have been counted
		err = fmt.Errorf("%w: an option here is no setting of a lock topic", ErrInvalidConfig)
	}
	return o, err
}

// WithModels declares the models of the topic. The first declaration replaces the default,
// Level-Forward-Forward-Forward; Open returns ErrConflict if other models were declared
// before. Without this option the models in force are used.
func WithModels(m Models) Option {
	return func(o *options) error {
		o.settingsGiven++
		o.givenModels, o.models = true, m
		if !m.Valid() {
			return fmt.Errorf("%w: models %+v: take the constants of this package or ParseModels", ErrInvalidConfig, m)
		}
		return nil
	}
}

// WithTiming sets the time constants; the default is LAN. The TTL of a topic never changes,
// so it must be the one in force. A topic that a [Server] creates at this participant's
// request gets this TTL, if it is between MinTTL and MaxTTL. Without a register
// (WithRegister, Create) a TTL above MaxTTL makes Open fail with ErrInvalidConfig.
func WithTiming(timing Timing) Option {
	return func(o *options) error {
		o.settingsGiven++
		o.givenTiming, o.timing = true, timing.protocol()
		return invalid(o.timing.Validate())
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

// WithParent attaches this participant to the participant with this id and to no other.
func WithParent(id string) Option {
	return func(o *options) error {
		o.parent = id
		return checkName("parent", id)
	}
}

// WithFanout sets how many children this participant accepts; the default is 8.
func WithFanout(n int) Option {
	return func(o *options) error {
		o.fanout = n
		if n < 1 || n > 1024 {
			return fmt.Errorf("%w: fan-out %d, give 1 to 1024", ErrInvalidConfig, n)
		}
		return nil
	}
}

// WithTrustedWills relies on the broker's report, by a last will, that a participant has
// ended: its holds end at once instead of after the TTL. The cost: a broker publishes the
// will of any client that it has lost contact with, even of one that is still running. Then
// two participants may both rely on a hold until the first one is informed. Fences still
// rise. The option takes effect at the root, and every candidate may become the root, so
// give it to all. No hold continues in a later process (WithNote), so do not use it where
// gateways serve clients.
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

// WithMetrics registers the topic's metrics, labeled with participant and topic,
// until it ends.
func WithMetrics(r prometheus.Registerer) Option {
	return func(o *options) error {
		o.metrics = r
		return nil
	}
}

// WithClock replaces the clock that measures sessions: now returns the time since a fixed
// instant. It must never go backward, must drift less than Timing.Drift, and must include
// the time in which the machine sleeps. It is for virtual time and for platforms whose
// monotonic clock stops during sleep. It is called often, and under a mutex.
func WithClock(now func() time.Duration) Option {
	return func(o *options) error {
		o.clock = func() protocol.Time { return protocol.Time(now()) }
		if now == nil {
			return fmt.Errorf("%w: the clock is nil", ErrInvalidConfig)
		}
		return nil
	}
}

// checkName refuses what is not one level of an MQTT topic.
func checkName(what, name string) error {
	if err := pubsub.CheckName(name); err != nil {
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
		if opt != nil {
			errs = append(errs, opt(&o))
		}
	}
	s := o.wanted("")
	errs = append(errs, invalid(s.Validate()))
	if o.resumes && o.register == nil && o.own == nil {
		errs = append(errs, fmt.Errorf("%w: Resume without WithRegister: what goes on is in the file of a register", ErrInvalidConfig))
	}
	if o.create && o.register == nil {
		o.register = local.Memory()
	}
	return o, errors.Join(errs...)
}
