package static

import (
	"errors"
	"fmt"
	"slices"

	"padme/qosmutex/protocol"
)

// Errors of Step. Each says that the input was dropped and changed nothing.
var (
	ErrInvalid = errors.New("static: message that no correct participant sends")
	ErrRef     = errors.New("static: unknown or repeated Ref")
)

const defaultMaxWaiting = 1 << 16

// maxClock is beyond what clocks reach by counting. To follow a message from there
// would let a forger make them wrap.
const maxClock = 1 << 62

// Machine is one participant of a static algorithm. Make one with New.
type Machine struct {
	cfg     protocol.Config
	newCore func(*Env) Core
	self    int
	index   map[string]int // of Members
	now     protocol.Time
	out     *protocol.Output

	departed  bool
	priority  int64
	clock     uint64
	chance    uint64
	envs      []*Env // by resource
	tickers   []*Env // those whose core is a Ticker
	lastRef   uint64
	waiting   int
	counters  protocol.Counters
	resources []string // declared, sorted
}

// call is a request of the application until it is over.
type call struct {
	Request
	ref       uint64
	client    string // on whose behalf; it is only reported
	fixed     bool
	inside    bool
	withdrawn bool // the application no longer wants it, the core does not know
	fence     uint64
}

// New makes a machine whose cores newCore makes, one for each resource when it is
// first named. The error wraps [protocol.ErrInvalidConfig].
func New(cfg protocol.Config, newCore func(*Env) Core) (*Machine, error) {
	if cfg.Self.IsZero() {
		return nil, fmt.Errorf("%w: Self names nobody", protocol.ErrInvalidConfig)
	}
	if err := cfg.Timing.Validate(); err != nil {
		return nil, err
	}
	m := &Machine{
		cfg: cfg, newCore: newCore, index: make(map[string]int, len(cfg.Members)),
		priority: cfg.Priority, chance: cfg.Seed, resources: slices.Clone(cfg.Settings.Resources),
	}
	slices.Sort(m.resources)
	for i, id := range cfg.Members {
		if _, twice := m.index[id]; twice || id == "" {
			return nil, fmt.Errorf("%w: Members[%d] is %q: names must be there and differ", protocol.ErrInvalidConfig, i, id)
		}
		m.index[id] = i
	}
	self, ok := m.index[cfg.Self.ID]
	if !ok {
		return nil, fmt.Errorf("%w: %q is not one of the %d Members", protocol.ErrInvalidConfig, cfg.Self.ID, len(cfg.Members))
	}
	if m.self = self; m.cfg.MaxWaiting == 0 {
		m.cfg.MaxWaiting = defaultMaxWaiting
	}
	return m, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	m.now, m.out = max(now, m.now), out
	err := m.handle(in)
	for _, e := range m.tickers {
		if !m.departed { // else it would ask to be woken for ever, at an instant that has passed
			m.wake(e)
		}
	}
	m.out = nil
	return err
}

// wake calls the core of e if its instant has come, and tells when to come again.
func (m *Machine) wake(e *Env) {
	if e.wakeAt <= m.now {
		e.wakeAt = protocol.Never
		e.core.(Ticker).Tick()
		m.settle(e)
	}
	m.out.WakeAt = min(m.out.WakeAt, e.wakeAt)
}

func (m *Machine) handle(in *protocol.Input) error {
	if m.departed {
		if in.Kind == protocol.Acquire {
			m.deny(in.Ref, in.Resource, protocol.ReasonClosed)
		}
		return nil
	}
	switch in.Kind {
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
	case protocol.Depart:
		m.departed = true
	}
	return nil // models are PADME's, and channels care for reconnections
}

func (m *Machine) receive(msg *protocol.Message) error {
	from, ok := m.index[msg.From.ID]
	switch {
	case !ok || from == m.self || msg.To.ID != m.cfg.Self.ID:
		return m.invalid(msg, "not from a participant to us")
	case !m.known(msg.Resource):
		return m.invalid(msg, "of an unknown resource")
	case m.full(msg.Resource):
		return m.invalid(msg, "of one resource too many")
	case max(msg.Clock, msg.ID.Clock) > maxClock:
		return m.invalid(msg, "of a clock that nobody reaches")
	}
	e := m.at(msg.Resource)
	before := m.clock
	m.clock = max(before, msg.Clock, msg.ID.Clock) // before the core answers: its answer is later
	if err := e.core.Receive(from, msg); err != nil {
		m.clock = before
		m.counters.Invalid++
		return fmt.Errorf("%w: %v from %v: %w", ErrInvalid, msg.Kind, msg.From, err)
	}
	m.settle(e)
	return nil
}

func (m *Machine) invalid(msg *protocol.Message, why string) error {
	m.counters.Invalid++
	return fmt.Errorf("%w: %v from %v: %s", ErrInvalid, msg.Kind, msg.From, why)
}

// known reports whether the topic has this resource.
func (m *Machine) known(resource string) bool {
	if resource == "" || resource == protocol.Any {
		return false
	}
	_, declared := slices.BinarySearch(m.resources, resource)
	return declared || m.cfg.Settings.Open
}

// full reports whether a resource is new and there are as many as there may be: in
// an open topic anybody can make names up.
func (m *Machine) full(resource string) bool {
	_, ok := m.find(resource)
	return !ok && len(m.envs) >= protocol.MaxResources
}

func (m *Machine) find(resource string) (i int, ok bool) {
	return slices.BinarySearchFunc(m.envs, resource, func(e *Env, name string) int { return compareID(e.Resource, name) })
}

// at returns the env of a resource, made when it is first named.
func (m *Machine) at(resource string) *Env {
	i, ok := m.find(resource)
	if !ok {
		e := &Env{
			Self: m.self, N: len(m.cfg.Members), Resource: resource, Floor: m.cfg.FenceFloor,
			Config: &m.cfg, m: m, wakeAt: protocol.Never,
		}
		e.core = m.newCore(e)
		m.envs = slices.Insert(m.envs, i, e)
		if _, ok := e.core.(Ticker); ok {
			m.tickers = append(m.tickers, e)
		}
	}
	return m.envs[i]
}

// random is a step of SplitMix64.
func (m *Machine) random() uint64 {
	m.chance += 0x9e3779b97f4a7c15
	z := m.chance
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// CheckInvariants asks the cores.
func (m *Machine) CheckInvariants() error {
	for _, e := range m.envs {
		if c, ok := e.core.(interface{ CheckInvariants() error }); ok {
			if err := c.CheckInvariants(); err != nil {
				return fmt.Errorf("%s of %s: %w", e.Resource, m.cfg.Self.ID, err)
			}
		}
	}
	return nil
}
