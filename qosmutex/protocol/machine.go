package protocol

// Machine is one participant's part of a mutual exclusion algorithm: a
// deterministic function of what has happened. A Machine is not safe for
// concurrent use.
type Machine interface {
	// Step feeds one input at time now, which must not run backwards, and puts
	// what follows into out, which it first clears. An error says that the input
	// was wrong (a message that fits nothing, an unknown Ref); the state is then
	// as if the input had been a mere Tick. Step does not keep in.
	Step(now Time, in *Input, out *Output) error
	// Status describes the machine as it is now. The slices in it are fresh.
	Status() Status
}

// InputKind says what happened.
type InputKind uint8

// Inputs of a machine.
const (
	Tick       InputKind = iota // time has passed; the first Step of a machine is a Tick
	Receive                     // Message arrived
	Acquire                     // the application asks for Resource, under Ref
	Withdraw                    // the application no longer waits for Ref
	Leave                       // the application leaves the critical section of Ref
	Prioritize                  // the participant's priority becomes Priority
	Raise                       // that of the request Ref, which waits, becomes Priority, and does not follow the participant's any more
	Declare                     // the application declares the parts of the settings that Lease says, in the place of defaults
	Change                      // the application changes those parts, whoever declared them
	Reconnect                   // the transport lost its connection and has it again
	Depart                      // the participant wants to leave for good, see Status.Role; the second one: at once, without waiting for others
	Suspect                     // the transport believes that Node has ended
	Appointed                   // the record of the topic names this participant the root, as Lease says
	Extended                    // the lease of this root was renewed, as Lease says
	Yield                       // a record that names Node the next root is about to be written: grant and answer nothing
	Succeeded                   // that record, of Lease.Term, is written: Node is the root
	Dismissed                   // this participant is not the root any more, or may not be
	Configure                   // the record of the topic has these settings, as Lease says
	Announce                    // a root is to tell everybody that it is there
	Bar                         // the participant cannot be the root now, though it is a candidate
	Unbar                       // it can again
)

// Input is one thing that happened to a machine.
type Input struct {
	Kind     InputKind
	Message  *Message // Receive
	Ref      uint64   // Acquire, Withdraw, Leave, Raise: the caller's name for a request, never used twice
	Resource string   // Acquire: an id, or Any
	Priority int64    // Acquire with Fixed, Prioritize, Raise; smaller is more important
	Fixed    bool     // Acquire: use Priority; else the participant's, and follow it while waiting
	Try      bool     // Acquire: grant now or refuse, never wait
	Client   string   // Acquire: on whose behalf, of at most MaxClient bytes; only reported. Empty: the participant's own
	Within   Duration // Acquire: be inside within this time or be refused; 0: no deadline
	Hold     Duration // Acquire: how long the application says it will hold; 0: it does not say
	Node     Node     // Suspect, Yield, Succeeded
	Lease    *Lease   // Appointed, Extended, Succeeded (Term only), Configure, Declare and Change (Settings only); the machine copies what it needs
}

// Lease is what entitles a participant to be the root of a topic, as the topic's
// record says. Instants are on the participant's own clock.
type Lease struct {
	Term     uint64
	Until    Time     // the root stops then, unless the lease is extended before
	Renewed  Time     // when the renewal that Until rests on was first sent: no session outlives it by more than a TTL
	Renewal  Renewal  // that one
	Register uint64   // Appointed: the short form of the domain of the register with the record
	Members  []Node   // Appointed, if Known: everybody who can have had a session of the root before
	Known    bool     // Appointed: Members are known
	Held     []Held   // Appointed: what the process of this participant held when it ended, if nobody was the root since: these holds go on
	Heard    Time     // Appointed: when the last renewal of the root before was first heard of, or the register was new
	Unheard  bool     // Appointed: others may create the topic elsewhere before they hear of this root, so what it sends must have come back before it grants
	Fences   Fences   // those that the root may hand out
	TTL      Duration // of the topic
	Settings
}

// Held is a hold of a process that has ended, for the machine that is started again in its
// place. Somebody outside of the process goes by it.
type Held struct {
	Ref      uint64 // the caller's name for it, as that of an Acquire. A hold that goes on is told by Granted
	Resource string
	Fence    uint64
	Priority int64
	Client   string // on whose behalf, as that of an Acquire
}

// Output is what follows from an input. The caller owns it, hands the same one
// to every Step, and handles its fields in the order given here.
type Output struct {
	// Losses lists holds that stopped being valid. The runtime MUST cancel their
	// contexts before it sends any of Messages: once a message is out, another
	// participant may enter. Empty when nothing was lost.
	Losses []Loss
	// Messages are to be sent in this order. Order between two messages to the
	// same participant MUST be kept while the connection lasts.
	Messages []Message
	// Grants wake the application: it is inside from now on.
	Grants []Granted
	// Confirmed lists the Refs of holds whose Granted.Until no longer applies: they
	// last as long as the session.
	Confirmed []uint64
	// Denials end a request without a hold.
	Denials []Denial
	// WakeAt is when to Step with a Tick even if nothing else happens.
	WakeAt Time

	// What the machine tells of itself, beyond the lock.

	// Changed: role, term, root, parent, session or settings may differ from before.
	Changed bool
	// Touched are resources whose status may differ from before, the same one perhaps
	// twice; Any: of all. Algorithms that are Static don't tell.
	Touched []string
	// Left are entries of others that are over, as the root hears.
	Left []Left
	// Renewal is the renewal of the root's lease that this participant has heard of
	// just now, and Rank how many candidates come before it; zero: it has heard of none.
	Renewal Renewal
	Rank    int
	// Remembered, at a root: somebody who looks for a root knows this term, which is later
	// than ours, and will not follow us in ours; or it is ours, in which somebody goes by a
	// grant that we never gave, and takes those that we give for old ones. 0: neither.
	Remembered uint64
	// Claim is what a message has just told of the root; zero: none has.
	Claim Claim
	// Summoned: the former root says that the record names this participant the root.
	Summoned bool
	// Echo is when the heartbeat was sent that this candidate sent to itself, and that
	// has come back over the transport just now; 0: none has.
	Echo Time
	// WantCeiling is the ceiling of fences that the root needs in the record, above the one that
	// it has; 0: those that it has will do.
	WantCeiling uint64
	// Proposed are settings that the topic should have, at the root: see Configure. nil: none.
	Proposed *Proposal
	// Begun are members whose sessions begin with this step, and Ended those whose
	// sessions are over, at the root. Who remembers them must do so before it sends any
	// of Messages.
	Begun, Ended []Node
	// Excesses are limits that others, or this participant, have just gone beyond, for the log. They
	// are counted in Counters, too. Algorithms that are Static don't tell.
	Excesses []Excess
	// Successor is the participant that the root proposes as the next root; zero: none. See Yield.
	Successor Node

	// Explain is set by the caller, and stays: Decisions are wanted.
	Explain bool
	// Decisions are which tokens the root has given, and why to whom. Their queues are valid
	// until the next Step. Algorithms that are Static don't tell.
	Decisions []Decision

	schedules []Scheduled // memory of those of Messages
	shown     []Waiter    // and of the queues of Decisions
}

// Lend copies a schedule, for one of Messages.
func (o *Output) Lend(list []Scheduled) []Scheduled {
	from := len(o.schedules)
	o.schedules = append(o.schedules, list...)
	return o.schedules[from:]
}

// Reset empties the output and keeps its memory.
func (o *Output) Reset() {
	o.Losses = o.Losses[:0]
	o.Messages = o.Messages[:0]
	o.Grants = o.Grants[:0]
	o.Confirmed = o.Confirmed[:0]
	o.Denials = o.Denials[:0]
	o.WakeAt = Never
	o.Touched, o.Left = o.Touched[:0], o.Left[:0]
	o.Begun, o.Ended, o.Excesses = o.Begun[:0], o.Ended[:0], o.Excesses[:0]
	o.Changed, o.Renewal, o.Rank, o.Summoned, o.Echo, o.WantCeiling, o.Proposed, o.Successor = false, Renewal{}, 0, false, 0, 0, nil, Node{}
	o.Remembered, o.Claim = 0, Claim{}
	o.schedules = o.schedules[:0]
	o.Decisions, o.shown = o.Decisions[:0], o.shown[:0]
}

// Limit is a bound on what others can have a machine remember.
type Limit uint8

// Limits.
const (
	LimitWaiting      Limit = iota // requests that wait here
	LimitIncarnations              // sessions of the incarnations of one participant
	LimitSessions                  // those of all
	LimitEnd
)

// Excess is a limit that somebody went beyond.
type Excess struct {
	Limit Limit
	From  string // the id of whoever sent it
	Most  int    // what the limit is
}

// Claim is what somebody says of the root of the topic. It is no authority. Where roots of
// different registers meet, the one with the later epoch goes on, whose fences are above.
type Claim struct {
	Register uint64   // the short form of the domain of its register; 0: this is no Claim
	Epoch    Epoch    // of that root
	TTL      Duration // of the topic there, as far as is known
	Root     bool     // the root itself says so
}

// Granted tells that the request Ref is inside Resource.
type Granted struct {
	Ref      uint64
	ID       RequestID
	Turn     uint64 // the clock by which Fair orders it
	Resource string
	Fence    uint64 // rises with every entry to Resource; never 0
	Priority int64
	Grant    Grant
	// Until is when the hold ends on this participant's clock even if the session goes
	// on, unless a later Output names it in Confirmed. 0: it ends with the session.
	Until Time
	How   How // the token came
}

// Loss tells that the hold of Ref is over although the application did not leave.
type Loss struct {
	Ref      uint64
	ID       RequestID
	Resource string
	Fence    uint64
}

// Left tells that whoever made an entry has left the critical section.
type Left struct {
	Entry
	Resource string
}

// Denial tells that the request Ref will not be served.
type Denial struct {
	Ref      uint64
	Resource string
	Reason   Reason
}

// Role is a machine's standing in its lock topic.
type Role uint8

// Roles.
const (
	Joining  Role = iota // looks for a parent
	Member               // has a parent
	Root                 // is the root
	Departed             // has left; the machine does nothing any more
)

func (r Role) String() string {
	names := [...]string{"joining", "member", "root", "departed"}
	if int(r) < len(names) {
		return names[r]
	}
	return "role?"
}

// Status is a snapshot for people and for the runtime.
type Status struct {
	Role     Role
	Root     Node
	Epoch    Epoch
	Parent   Node
	Children []Node
	Depth    int
	Members  int // participants of the topic, as far as is known; 0: unknown
	Priority int64
	Settings Settings
	TTL      Duration // in force for the topic
	// Session is 0 while the participant has none. Its holds are valid while the
	// participant's clock is below ValidUntil.
	Session    uint64
	ValidUntil Time
	Resources  []ResourceStatus // in order of name
	Counters   Counters
}

// ResourceStatus is what one participant knows of one resource; only the root
// knows enough to publish it.
type ResourceStatus struct {
	Resource     string
	Free         bool      // the token is at home: true only at the root
	Lost         bool      // at the root: the token is out, and where is not known: it is being recovered
	Retained     bool      // at the root: the token is out, and the participant of Target kept it when it left, and was not asked for it yet; it may have entered again
	Target       RequestID // for whom the present grant was given, if it is out
	TargetP      int64     // that request's priority
	TargetClient string    // that request's client, if it has one and it is known here
	Fences       Fences    // at the root: every entry on the present grant that Holder does not tell of has one of these; zero: unknown
	Inside       bool      // this participant is inside now
	// Holder is the entry of the holder, if this participant knows it: itself, or, at
	// the root, a member that said so when it was asked. Zero: unknown, which is the
	// usual case at the root while a grant is out.
	Holder       Entry
	HolderP      int64    // the priority of the holder's request
	HolderClient string   // its client, if it has one
	Fence        uint64   // of the own hold, or the next one to be handed out at the root
	Waiting      int      // requests known to wait here, subtree counts included
	Queue        []Waiter // those known by name, in the order of service
}

// Waiter is one waiting request, with what its place in the queue of one participant rests
// on. The rest of that is Priority and the clock and name in ID.
type Waiter struct {
	ID       RequestID
	Client   string // on whose behalf; empty: its participant's own
	Priority int64
	Any      bool
	Turn     uint64 // its clock, by which Fair orders: that of ID, or less if it is for a client

	By        Criterion // what puts it behind the one before it in the same list
	Level     uint8     // under Aging: lower comes first; 0: its patience is exhausted. It is among those for the same resource, or for Any; the two are compared by levels among both
	Patience  uint32    // under Fair and Aging: how many that came later may still be served before it
	Exhausted bool      // none may any more
	Arrival   uint64    // in which order requests came
	Deadline  Time      // latest instant to enter; 0: none
	Passed    bool      // it is passed over for now: its participant may be dead, or has not confirmed it since it has this way here
}

// Counters count what happened since the machine was made. Dropped messages
// changed nothing.
type Counters struct {
	Sent        [kindEnd]uint64 // by Kind, resends included
	Entries     uint64
	Losses      uint64
	Stale       uint64 // dropped: wrong incarnation, link, session, epoch or grant
	Resent      uint64 // messages repeated on a link
	Invalid     uint64 // dropped: no correct participant sends this
	Expiries    uint64 // sessions that expired: of members at the root, else own ones; and own leases
	ExpiriesIn  uint64 // own ones that ended a hold
	Syncs       uint64 // recoveries started
	Regenerated uint64 // tokens that the root regenerated
	Returned    uint64 // grants passed back unused
	Retained    uint64 // entries on a token that was retained, without a message
	Recalls     uint64 // retained tokens that the root asked for
	OffPath     uint64 // Releases passed on because their grant was not sent this way
	Moves       uint64 // re-attachments to another parent
	Terms       uint64 // how often this participant was appointed the root
	Adopted     uint64 // at a new root: holds that went on under it

	Excesses [LimitEnd]uint64 // what was refused, by the limit that it was beyond
}

// Config is what every machine is made from.
type Config struct {
	Self     Node
	Priority int64 // the participant's; smaller is more important
	Timing   Timing
	// Settings are those of the topic where this participant is the Root; elsewhere
	// those in force win. Version is ignored.
	Settings Settings
	// Root: the participant is the root from its first Step on and for as long as it
	// runs, in term 1, with fences above FenceFloor. For static trees in tests and
	// simulations, where no other participant can be.
	Root bool
	// Candidate: the participant can become the root, by Appointed.
	Candidate bool
	Parent    string // static tree: attach to this participant only; empty: adaptive
	Fanout    int    // children that this participant takes; 0: 8
	// FenceFloor: every fence that a Root hands out is above it.
	FenceFloor uint64
	// EpochFloor: the epoch of a static algorithm is above it.
	EpochFloor uint64
	// TrustSuspect ends the session of a participant as soon as it is suspected,
	// and not only after its TTL. Where the suspicion is false, two may believe that
	// they hold the same resource; fences rise all the same.
	TrustSuspect bool
	// MaxWaiting bounds the requests queued here; 0: 65536.
	MaxWaiting int
	// MaxIdle is how many undeclared resources that are not in use PADME remembers at
	// least, those that were granted last. 0: 1024.
	MaxIdle int
	// Former is the session of the process that was in the place of this participant before, and
	// has ended, as a member. Held are its holds: with a root that still keeps that session they
	// go on, told by Granted, with the first session of this participant at the latest. Only PADME
	// knows that.
	Former Former
	Held   []Held
	// Members are all participants, in an order that all agree on. Algorithms that
	// do not find each other by themselves need them; PADME ignores them.
	Members []string
	// Parents holds, for each of Members, the index of its parent, -1 for the root,
	// where the algorithm works on a static tree. nil: a complete tree in the order
	// of Members, of Fanout children each (0: 2).
	Parents []int
	// Seed draws the algorithm's own chances, such as a back-off. Every participant
	// needs another one.
	Seed uint64
}

// Algorithm is a mutual exclusion algorithm as a value.
type Algorithm struct {
	Name   string // as in --algorithm
	Source string // the paper and section
	New    func(Config) (Machine, error)

	// For people, a few words each.
	Messages string // counted messages per entry, as a formula in N
	Delay    string // synchronization delay: from a leave to the next entry, in t_m
	Assumes  string // beyond participants that follow the algorithm
	Crash    string // what the crash of a participant does

	// Static algorithms need Config.Members. They assume channels that lose,
	// double and reorder nothing.
	Static bool
}
