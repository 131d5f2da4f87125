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
	Prioritise                  // the participant's priority becomes Priority
	SetModels                   // the application asks for Models, for the whole topic
	Reconnect                   // the transport lost its connection and has it again
	Depart                      // the participant wants to leave for good, see Status.Role; the second one: at once, without waiting for anybody
	Suspect                     // the transport believes that Node has ended
	Floors                      // FenceFloor and EpochFloor are known anew; for who founds a topic again
)

// Input is one thing that happened to a machine.
type Input struct {
	Kind     InputKind
	Message  *Message // Receive
	Ref      uint64   // Acquire, Withdraw, Leave: the caller's name for a request, never used twice
	Resource string   // Acquire: an id, or Any
	Priority int64    // Acquire with Fixed, Prioritise; smaller is more important
	Fixed    bool     // Acquire: use Priority; else the participant's, and follow it while waiting
	Try      bool     // Acquire: grant now or refuse, never wait
	Models   Models   // SetModels
	Within   Duration // Acquire: be inside within this time or be refused; 0: no deadline
	Hold     Duration // Acquire: how long the application says it will stay; 0: it does not say
	Node     Node     // Suspect

	FenceFloor, EpochFloor uint64   // Floors: as those of Config, at this instant
	Listen                 Duration // Floors: as that of Config
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
	// Denials end a request without a hold.
	Denials []Denial
	// WakeAt is when to Step with a Tick even if nothing else happens.
	WakeAt Time
}

// Reset empties the output and keeps its memory.
func (o *Output) Reset() {
	o.Losses = o.Losses[:0]
	o.Messages = o.Messages[:0]
	o.Grants = o.Grants[:0]
	o.Denials = o.Denials[:0]
	o.WakeAt = Never
}

// Granted tells that the request Ref is inside Resource.
type Granted struct {
	Ref      uint64
	ID       RequestID
	Resource string
	Fence    uint64 // rises with every entry to Resource; never 0
	Priority int64
	Grant    Grant
}

// Loss tells that the hold of Ref is over although the application did not leave.
type Loss struct {
	Ref      uint64
	ID       RequestID
	Resource string
	Fence    uint64
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
	Founding             // listens whether the topic has a root already
	Member               // has a parent
	Root                 // is the root
	Departed             // has left; the machine does nothing any more
)

func (r Role) String() string {
	names := [...]string{"joining", "founding", "member", "root", "departed"}
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
	Heir     Node // of a Founding participant: to whom it handed the root over, and without whose sign, or end, it founds nothing
	Children []Node
	Depth    int
	Members  int // participants of the topic, as far as is known; 0: unknown
	Priority int64
	Settings Settings
	Voters   []Node   // of the view, as far as this participant knows them
	Named    Grant    // by which epoch the voters were named, and as its how-manieth set; of two sets the newer one counts
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
	Resource string
	Free     bool      // the token is at home: true only at the root
	Target   RequestID // for whom the present grant was given, if it is out
	TargetP  int64     // that request's priority
	Inside   bool      // this participant is inside now
	Fence    uint64    // of the own hold, or the next one to be handed out at the root
	Waiting  int       // requests known to wait here, subtree counts included
	Queue    []Waiter  // those known by name, in the order of service
}

// Waiter is one waiting request.
type Waiter struct {
	ID       RequestID
	Priority int64
	Any      bool
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
	Lapses      uint64 // at the root: sessions that lapsed; else own lapses
	LapsesIn    uint64 // own lapses while inside
	Syncs       uint64 // recoveries started
	Regenerated uint64 // tokens made anew by the root
	Returned    uint64 // grants passed back unused
	OffPath     uint64 // Releases passed on because their grant was not sent this way
	Moves       uint64 // re-attachments to another parent
	Views       uint64 // elections that this participant won
	Adopted     uint64 // at a new root: holds that went on under it
}

// Config is what every machine is made from.
type Config struct {
	Self     Node
	Priority int64 // the participant's; smaller is more important
	Timing   Timing
	// Settings are proposed when this participant founds the topic; otherwise
	// those in force win. Version is ignored.
	Settings Settings
	Found    bool   // found the topic if nobody has
	Parent   string // static tree: attach to this participant only; empty: adaptive
	Fanout   int    // children that this participant takes; 0: 8
	// FenceFloor: when this participant founds the topic, at first or anew, every fence
	// is above it. It rises by one for each microsecond that passes until then. Also who
	// never founds a topic needs it: the root may be handed to it, and it be alone then.
	// A runtime whose machine is Founding again has it know better, by Floors.
	FenceFloor uint64
	// EpochFloor: when this participant founds the topic, its epoch is above it.
	EpochFloor uint64
	// MaxVoters bounds how many participants vote for the next root while this one
	// is the root; below 3 there is no vote, and the topic ends with its root. Even
	// numbers are passed through only: two voters survive no more crashes than one.
	MaxVoters int
	// GoOn founds the topic anew if its root is gone and a majority of its voters
	// does not answer. Where they are cut off and not dead, two roots may grant the
	// same resource, the newer one with higher fences.
	GoOn bool
	// TrustSuspect ends the session of a participant as soon as it is suspected,
	// and not only after its TTL. Where the suspicion is false, two may believe that
	// they hold the same resource; fences rise all the same.
	TrustSuspect bool
	// Listen is how long this participant listens at least before it founds the topic,
	// also where a grace would do: as long as the members of a view that it may not hear
	// at first need to come back.
	Listen Duration
	// AtOnce founds without listening first. Only for trees that are known to be
	// new: tests and simulations.
	AtOnce bool
	// MaxWaiting bounds the requests queued here; 0: 65536.
	MaxWaiting int
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
	Delay    string // synchronisation delay: from a leave to the next entry, in t_m
	Assumes  string // beyond participants that follow the algorithm
	Crash    string // what the crash of a participant does

	// Static algorithms need Config.Members. They assume channels that lose,
	// double and reorder nothing.
	Static bool
}
