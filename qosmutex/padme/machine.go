package padme

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

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

// Machine is one participant of PADME. Make one with New.
type Machine struct {
	self        protocol.Node
	under       string // static tree: the only parent that will do; else empty
	maxWaiting  int32
	fanout      int16
	spare       uint8 // requests in free
	trust       bool  // who is suspected has ended
	candidate   bool  // we can be appointed the root
	barred      bool  // but not now
	isFixedRoot bool  // we are the root for ever (Config.Root)
	idle        bool  // no own request was made or ended since the last beacon
	reported    bool  // the root of this term knows our session, and what we hold
	depth       uint8 // links to the root; more than 255 count as that
	role        protocol.Role
	began       bool
	departing   bool
	timing      protocol.Timing   // TTL is the topic's once a session is there
	grace       protocol.Duration // timing.Grace(), by which every Step looks for silence
	now         protocol.Time
	out         *protocol.Output

	priority    int64
	clock       uint64 // Lamport clock: the C of the next request is above it
	servedClock uint64 // C of the latest request that the root served in its turn, as far as beacons told

	// The tree.
	epoch     protocol.Epoch
	root      protocol.Node
	domain    uint64          // the short form of that of the register which names the root that we are, or that gave our session
	ancestors []protocol.Node // root first, parent last
	parent    *link
	children  []*link // by node
	linkGen   uint64
	join      *join // nil: we look for nobody
	beacon    beacon
	outranks  protocol.Time // since when we (or, at the root, a child) outrank our parent (the root); 0: not

	session   session   // at a member
	authority authority // at the root
	*roll               // of the members, at the root; else nil
	early     *handover // a Handover that came before we are appointed; nil: none

	// Requests and tokens.
	settings  protocol.Settings
	resources []*resource // by name
	any       *queue      // nil until somebody asks for any
	requests  register
	own       []*entry       // waiting and inside, in order of arrival
	free      *entry         // a list of a few, for reuse
	grants    uint64         // at the root: number of the last grant
	fences    uint64         // at the root: floor for resources not seen yet
	bound     protocol.Grant // of a token not seen yet

	arrivals uint64           // numbers them under Fair and Aging
	nextMiss protocol.Time    // no deadline of an own request is before
	wanted   *protocol.Models // asked for here and not in force yet
	departBy protocol.Time    // departing: give up waiting for confirmation

	// Provisional grants.
	nextDue   protocol.Time // none that we gave, as the root, or hold ends before
	confirmAt protocol.Time // when to ask for confirmation of our holds; Never: none needs it

	counters counters
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
		self: cfg.Self, under: cfg.Parent, fanout: int16(min(cfg.Fanout, math.MaxInt16)), maxWaiting: int32(min(cfg.MaxWaiting, math.MaxInt32)),
		timing: cfg.Timing, grace: cfg.Timing.Grace(), priority: cfg.Priority,
		settings: protocol.Settings{Models: cfg.Settings.Models}, fences: cfg.FenceFloor + 1, nextMiss: protocol.Never,
		nextDue: protocol.Never, confirmAt: protocol.Never,
		trust: cfg.TrustSuspect, candidate: cfg.Candidate && cfg.Parent == "", isFixedRoot: cfg.Root,
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
	case protocol.KindDetach:
		m.redirected(msg.Peer)
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

func (m *Machine) stale(msg *protocol.Message, why string) error {
	m.count().stale++
	return fmt.Errorf("%w: %v from %v: %s", ErrStale, msg.Kind, msg.From, why)
}

func (m *Machine) badInput(why string) error {
	return fmt.Errorf("%w: %s", ErrInvalid, why)
}

func (m *Machine) invalid(msg *protocol.Message, why string) error {
	m.count().invalid++
	return fmt.Errorf("%w: %v from %v: %s", ErrInvalid, msg.Kind, msg.From, why)
}

// find returns the record of a resource, or nil.
func (m *Machine) find(name string) *resource {
	if i, ok := m.search(name); ok {
		return m.resources[i]
	}
	return nil
}

func (m *Machine) search(name string) (int, bool) {
	if len(m.resources) == 1 && m.resources[0].q.resource == name { // as most topics have it
		return 0, true
	}
	return slices.BinarySearchFunc(m.resources, name, func(r *resource, n string) int { return strings.Compare(r.q.resource, n) })
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
	if m.any == nil {
		m.any = &queue{resource: protocol.Any}
	}
	return m.any
}
