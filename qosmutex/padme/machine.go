package padme

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// Algorithm is PADME as a value.
var Algorithm = protocol.Algorithm{
	Name:   "padme",
	Source: "Edmondson, Schmidt, Gokhale: QoS-enabled distributed mutual exclusion, §3",
	New:    func(cfg protocol.Config) (protocol.Machine, error) { return New(cfg) },

	Messages: "3·depth alone, down to 1.5 in the papers' tree of 7",
	Delay:    "1 with Direct, at best with Use, else up to 2·depth",
	Assumes:  "clocks that drift by less than a bound",
	Crash:    "repaired after the session's time-to-live, of the root by its record",
}

// Errors of Step. Each says that the input was dropped and changed nothing.
var (
	ErrStale   = errors.New("padme: message of another incarnation, link, session, epoch or grant")
	ErrInvalid = errors.New("padme: message that no correct participant sends")
	ErrRef     = errors.New("padme: unknown or repeated Ref")
)

const (
	defaultFanout     = 8
	defaultMaxWaiting = 1 << 16
	maxLag            = 1       // as far as a clock lags when everybody is served in turn
	maxClockJump      = 1 << 32 // a Lamport clock that jumps further is a forgery or a fault: see near
	maxClock          = 1 << 63 // so that none wraps: 2^31 messages of a forger are not enough
	maxTermJump       = 1 << 60 // a term that jumps further, too: two of them would leave none above
	maxFence          = 1 << 62 // so that none wraps
	maxDepth          = 64
	fencesAhead       = 1 << 16 // more than are handed out between two heartbeats
	maxSpare          = 4       // requests kept for reuse: where many wait, they come and go one by one
)

// Machine is one participant of PADME. Make one with New. Its parts each copy themselves
// and write their state; what takes several of them is a method of the Machine.
type Machine struct {
	core
	links
	tree
	sessions
	tokens
	queues
}

// New makes a machine. It does nothing until its first Step.
func New(cfg protocol.Config) (*Machine, error) {
	if cfg.Self.IsZero() {
		return nil, fmt.Errorf("%w: Self names nobody", protocol.ErrInvalidConfig)
	}
	if err := cfg.Timing.Validate(); err != nil {
		return nil, err
	}
	if cfg.Fanout < 0 || cfg.MaxWaiting < 0 || cfg.MaxIdle < 0 {
		return nil, fmt.Errorf("%w: negative Fanout, MaxWaiting or MaxIdle", protocol.ErrInvalidConfig)
	}
	if cfg.Parent == cfg.Self.ID {
		return nil, fmt.Errorf("%w: %q cannot be its own parent", protocol.ErrInvalidConfig, cfg.Parent)
	}
	cfg.Settings.Resources = sortedSet(cfg.Settings.Resources)
	if slices.Contains(cfg.Settings.Resources, protocol.Any) || slices.Contains(cfg.Settings.Resources, "") {
		return nil, fmt.Errorf("%w: a resource cannot be named %q or be empty", protocol.ErrInvalidConfig, protocol.Any)
	}
	maxIdle := cmp.Or(cfg.MaxIdle, defaultMaxIdle)
	m := &Machine{
		core: core{
			self: cfg.Self, timing: cfg.Timing, graced: cfg.Timing.Grace(), priority: cfg.Priority,
			settings: protocol.Settings{Models: cfg.Settings.Models},
		},
		links: links{fanout: cmp.Or(cfg.Fanout, defaultFanout)},
		tree:  tree{under: cfg.Parent},
		sessions: sessions{
			trust: cfg.TrustSuspect, candidate: cfg.Candidate && cfg.Parent == "", isFixedRoot: cfg.Root,
			confirmAt: protocol.Never,
		},
		tokens: tokens{fences: cfg.FenceFloor + 1, nextDue: protocol.Never, maxIdle: maxIdle, forgetAt: 2 * maxIdle},
		queues: queues{maxWaiting: cmp.Or(cfg.MaxWaiting, defaultMaxWaiting), any: queue{resource: protocol.Any}, nextMiss: protocol.Never},
	}
	m.follows(&cfg)
	if cfg.Root {
		m.settings = cfg.Settings
		m.settings.Version = 1
	}
	return m, nil
}

func sortedSet(ids []string) []string {
	s := slices.Clone(ids)
	slices.Sort(s)
	return slices.Compact(s)
}

// Step implements [protocol.Machine].
func (m *Machine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	if m.role == protocol.Departed {
		if in.Kind == protocol.Acquire {
			out.Denials = append(out.Denials, protocol.Denial{Ref: in.Ref, Resource: in.Resource, Reason: protocol.ReasonClosed})
		}
		return nil
	}
	m.now, m.out = max(now, m.now), out
	if !m.began {
		m.began = true
		m.begin()
	}
	m.run(0, expiries) // before the input: what has expired must not be used
	err := m.handle(in)
	m.run(expiries, len(duties))
	m.refuseTries()
	m.reschedules()
	m.forgetIdle()
	out.WakeAt = m.wakeAt()
	m.out = nil
	return err
}

func (m *Machine) handle(in *protocol.Input) error {
	switch in.Kind {
	case protocol.Tick:
		return nil
	case protocol.Receive:
		return m.receive(in.Message)
	case protocol.Acquire:
		return m.acquire(in)
	case protocol.Withdraw:
		return m.withdraw(in.Ref)
	case protocol.Leave:
		return m.leave(in.Ref)
	case protocol.Prioritize:
		m.prioritize(in.Priority)
	case protocol.Raise:
		return m.raise(in.Ref, in.Priority)
	case protocol.Declare, protocol.Change:
		return m.declare(in.Lease, in.Kind == protocol.Change)
	case protocol.Reconnect:
		m.reconnect()
	case protocol.Depart:
		m.depart()
	case protocol.Suspect:
		m.suspect(in.Node)
	case protocol.Appointed, protocol.Extended, protocol.Succeeded, protocol.Configure:
		return m.leased(in)
	case protocol.Yield:
		return m.yield(in.Node)
	case protocol.Dismissed: // before its lease is over
		if m.role == protocol.Root {
			m.stepDown()
		}
	case protocol.Announce: // so that a root of another register hears of us
		if m.acting() {
			m.offer(protocol.Node{})
		}
	case protocol.Bar, protocol.Unbar:
		m.barred = in.Kind == protocol.Bar
	default:
		return fmt.Errorf("%w: input kind %d", ErrInvalid, in.Kind)
	}
	return nil
}

// leased handles what follows from the record of the topic.
func (m *Machine) leased(in *protocol.Input) error {
	switch {
	case in.Lease == nil:
		return m.badInput("no lease")
	case in.Kind == protocol.Appointed:
		return m.appointed(in.Lease)
	case in.Kind == protocol.Extended:
		return m.extended(in.Lease)
	case in.Kind == protocol.Succeeded:
		return m.succeeded(in.Lease.Term, in.Node)
	}
	return m.configure(&in.Lease.Settings)
}

// resource returns the record of a resource, made when it is first needed.
func (m *Machine) resource(name string) *resource {
	i, ok := m.search(name)
	if ok {
		return m.resources[i]
	}
	r := &resource{q: queue{resource: name}}
	r.tok.next, r.tok.bound = m.fences, m.bound
	switch {
	case m.role != protocol.Root:
	case m.inheriting():
		m.awaitReport(r)
	default:
		r.tok.phase = home
	}
	m.resources = slices.Insert(m.resources, i, r)
	return r
}

// queueOf returns the queue in which a request for resource waits.
func (m *Machine) queueOf(resource string) *queue {
	if resource != protocol.Any {
		return &m.resource(resource).q
	}
	return &m.any
}

// eachQueue yields the queue for any and those of the resources.
func (m *Machine) eachQueue(yield func(*queue) bool) {
	if !yield(&m.any) {
		return
	}
	for _, r := range m.resources {
		if !yield(&r.q) {
			return
		}
	}
}
