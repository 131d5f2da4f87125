package padme

import (
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
	Delay:    "1 with Use, else up to 2·depth",
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
	maxClockJump      = 1 << 32 // a Lamport clock that jumps further is a forgery or a fault
	maxTermJump       = 1 << 60 // a term that jumps further, too: two of them would leave none above
	maxFence          = 1 << 62 // so that none wraps
	maxTTL            = 1 << 60 // some 36 years, so that no sum of instants wraps
	maxDepth          = 64
	fencesAhead       = 1 << 16 // more than are handed out between two heartbeats
	maxSpare          = 4       // requests kept for reuse: where many wait, they come and go one by one
)

// Machine is one participant of PADME. Make one with New. Its parts each know when they
// next have something to do, copy themselves and write their state; what takes several
// of them is a method of the Machine.
type Machine struct {
	core
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
	if cfg.Fanout < 0 || cfg.MaxWaiting < 0 {
		return nil, fmt.Errorf("%w: negative Fanout or MaxWaiting", protocol.ErrInvalidConfig)
	}
	if cfg.Parent == cfg.Self.ID {
		return nil, fmt.Errorf("%w: %q cannot be its own parent", protocol.ErrInvalidConfig, cfg.Parent)
	}
	if cfg.Fanout == 0 {
		cfg.Fanout = defaultFanout
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = defaultMaxWaiting
	}
	cfg.Settings.Resources = sortedSet(cfg.Settings.Resources)
	if slices.Contains(cfg.Settings.Resources, protocol.Any) || slices.Contains(cfg.Settings.Resources, "") {
		return nil, fmt.Errorf("%w: a resource cannot be named %q or be empty", protocol.ErrInvalidConfig, protocol.Any)
	}
	m := &Machine{
		core: core{
			self: cfg.Self, timing: cfg.Timing, grace: cfg.Timing.Grace(), priority: cfg.Priority,
			settings: protocol.Settings{Models: cfg.Settings.Models},
		},
		tree: tree{under: cfg.Parent, fanout: cfg.Fanout},
		sessions: sessions{
			trust: cfg.TrustSuspect, candidate: cfg.Candidate && cfg.Parent == "", isFixedRoot: cfg.Root,
			confirmAt: protocol.Never,
		},
		tokens: tokens{fences: cfg.FenceFloor + 1, nextDue: protocol.Never},
		queues: queues{maxWaiting: cfg.MaxWaiting, any: queue{resource: protocol.Any}, nextMiss: protocol.Never},
	}
	if cfg.Root {
		m.settings = cfg.Settings
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
		return m.refuseAll(in, out)
	}
	m.now, m.out = max(now, m.now), out
	if !m.began {
		m.began = true
		m.begin()
	}
	m.expire() // before the input: what has lapsed must not be used
	err := m.handle(in)
	m.timers()
	out.WakeAt = m.wakeAt()
	m.out = nil
	return err
}

// refuseAll is the Step of a machine that has departed.
func (m *Machine) refuseAll(in *protocol.Input, out *protocol.Output) error {
	if in.Kind == protocol.Acquire {
		out.Denials = append(out.Denials, protocol.Denial{Ref: in.Ref, Resource: in.Resource, Reason: protocol.ReasonClosed})
	}
	return nil
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
	case protocol.Prioritise:
		m.prioritise(in.Priority)
	case protocol.SetModels:
		m.propose(in.Models)
	case protocol.Reconnect:
		m.reconnect()
	case protocol.Depart:
		m.depart()
	case protocol.Suspect:
		m.suspect(in.Node)
	case protocol.Appointed, protocol.Extended, protocol.Succeeded, protocol.Configure:
		return m.leased(in)
	case protocol.Yield:
		return m.yield()
	case protocol.Dismissed:
		return m.dismissed()
	case protocol.Announce:
		m.announce()
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

// receive sorts a message: datagrams to their handlers, numbered messages
// through their link.
func (m *Machine) receive(msg *protocol.Message) error {
	if msg.From == m.self && msg.Kind == protocol.KindBeat {
		m.out.Echo = msg.Sent
		return nil
	}
	if msg.From == m.self || msg.From.IsZero() || !msg.To.IsZero() && msg.To != m.self {
		return m.stale(msg, "not for us")
	}
	if known := max(m.clock, m.servedClock); known > 0 && max(msg.Clock, msg.ID.Clock) > known+maxClockJump {
		return m.invalid(msg, "clock jumps by more than 2^32")
	}
	if m.farAhead(msg.Epoch.Number) {
		return m.invalid(msg, "term jumps by more than 2^60")
	}
	if msg.To.IsZero() != (msg.Kind == protocol.KindJoin || msg.Kind == protocol.KindOffer && msg.To.IsZero()) {
		return m.invalid(msg, "wrong kind of address")
	}
	switch msg.Kind {
	case protocol.KindJoin:
		return m.onJoin(msg)
	case protocol.KindOffer:
		return m.onOffer(msg)
	case protocol.KindAttach:
		return m.onAttach(msg)
	case protocol.KindAccept:
		return m.onAccept(msg)
	case protocol.KindRefuse:
		return m.onRefuse(msg)
	case protocol.KindBeat:
		return m.onBeat(msg)
	case protocol.KindBeatAck:
		return m.onBeatAck(msg)
	case protocol.KindGoodbye:
		return m.onGoodbye(msg)
	case protocol.KindSync:
		return m.onSync(msg)
	case protocol.KindReport:
		return m.onReport(msg)
	case protocol.KindHandover:
		return m.onHandover(msg)
	}
	return m.receiveOnLink(msg)
}

// mergeClock advances the Lamport clock as the papers' second rule says (§3.2): to
// the time that a Request, Reply, Release or Sync names. That is a request's C,
// not the sender's clock: under Replace an inner participant's clock runs ahead of
// what the root can know, and the root would overtake everybody by its lag.
//
// A participant that takes no part, because it is new or idle from one beacon to
// the next, catches up with the latest request that the root served in its turn, or
// its next requests would all come before everybody else's. So does one that lags by
// more than a round, because it was not served for a while under another model, or
// because it founded the topic anew and knew of no request. That is not the root's
// clock: where a pass model is Use, entries out of turn drive it, and a newcomer would
// wait until everybody's clock has come so far.
func (m *Machine) mergeClock(msg *protocol.Message) {
	m.clock = max(m.clock, msg.ID.Clock)
	idle := msg.Kind == protocol.KindAccept
	switch {
	case idle:
	case msg.Kind == protocol.KindBeacon:
		idle, m.idle = m.idle, true
	default:
		return
	}
	m.servedClock = max(m.servedClock, msg.Clock)
	if idle && len(m.own) == 0 || m.clock+maxLag < m.servedClock {
		m.clock = max(m.clock, m.servedClock)
	}
}

func (m *Machine) receiveOnLink(msg *protocol.Message) error {
	l := m.linkOf(msg)
	if l == nil {
		return m.onUnknownLink(msg)
	}
	switch msg.Kind {
	case protocol.KindBeacon:
		return m.onBeacon(l, msg)
	case protocol.KindResend:
		l.heard = m.now
		l.ack(msg.Ack)
		m.repeat(l)
		return nil
	}
	if msg.Seq == 0 {
		if msg.Kind == protocol.KindDetach { // the answer of a peer to a link that it has closed
			m.closed(l)
			return nil
		}
		return m.invalid(msg, "no number")
	}
	if !m.accept(l, msg) {
		return nil
	}
	m.mergeClock(msg)
	if l == m.parent {
		return m.fromParent(msg)
	}
	return m.fromChild(l, msg)
}

func (m *Machine) fromParent(msg *protocol.Message) error {
	switch msg.Kind {
	case protocol.KindReply:
		return m.onReply(msg)
	case protocol.KindDeny:
		return m.onDeny(msg)
	case protocol.KindSettings:
		m.adoptSettings(&msg.Settings)
		return nil
	case protocol.KindMove:
		m.redirected(msg.MoveTo)
		return nil
	}
	return m.invalid(msg, "not from a parent")
}

func (m *Machine) fromChild(l *link, msg *protocol.Message) error {
	switch msg.Kind {
	case protocol.KindRequest:
		return m.onRequest(l, msg)
	case protocol.KindWithdraw:
		return m.onWithdraw(l, msg)
	case protocol.KindRelease:
		return m.onRelease(l, msg)
	case protocol.KindPropose:
		m.propose(msg.Settings.Models)
		return nil
	case protocol.KindNamed:
		m.sweep(l)
		return nil
	case protocol.KindDetach:
		m.closed(l)
		return nil
	}
	return m.invalid(msg, "not from a child")
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
		m.mislay(r)
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
