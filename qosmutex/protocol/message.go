package protocol

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Kind says what a message is.
type Kind uint8

// Kinds of message. Request to Settings travel on the link between a child and
// its parent: numbered, acknowledged and delivered once and in order. The others
// are datagrams that may be lost or repeated.
const (
	KindNone Kind = iota

	// The papers' messages.
	KindRequest // child → parent: ⟨I,P,C,D⟩; the same ⟨I,C⟩ again changes P
	KindReply   // parent → child: the token on its way to its target
	KindRelease // child → parent: the token on its way home, with every entry made

	// Companions of the three, on the same link.
	KindWithdraw // child → parent: ⟨I,C⟩ is no longer wanted
	KindDeny     // parent → child: ⟨I,C⟩ is refused
	KindPropose  // child → parent: the application asks for other models or resources
	KindSettings // parent → child: models and resources in force
	KindNamed    // child → parent: every live request has been named since Attach
	KindDetach   // child → parent: I leave you; unnumbered: this link is closed here
	KindMove     // parent → child: attach to MoveTo instead; to anybody else if it is nobody

	// Recovery of a token (PADME §3.3).
	KindSync   // asker → anyone: what became of this grant?
	KindReport // the answer to Sync

	// The tree (cloud paper §2.1).
	KindJoin   // multicast: who is above me?
	KindOffer  // an answer to Join
	KindAttach // child → parent: be my parent; opens a link
	KindAccept // parent → child: the link is open
	KindRefuse // parent → child: no; ask again
	KindBeacon // both ways on a link: root's beacon downward, life and acknowledgement both ways
	KindResend // on a link: repeat everything after Ack

	// Sessions.
	KindBeat    // participant → root: I live; carries the sender's clock
	KindBeatAck // root → participant: echo of that clock
	KindGoodbye // participant → root: my session ends now; root → participant: that of a neighbor in the tree has ended

	// A planned change of the root.
	KindHandover // former root → its successor: the tokens that rest, and who may have the others

	// The other algorithms, between participants that know each other beforehand.
	// Request, Reply, Release, Withdraw and Deny are theirs, too.
	KindToken   // the token, where it is not a Reply
	KindAck     // Lamport: I have your request; deadlines: it is accepted
	KindFailed  // Maekawa: a more important request has my vote
	KindInquire // Maekawa: may I have my vote back?
	KindYield   // Maekawa: have it back
	KindReceipt // of a channel: everything up to Ack has come

	// PADME under the Release model Direct.
	KindSchedule // root → participant: whom to send the token to on leaving

	kindEnd
)

var kindNames = [kindEnd]string{
	"None", "Request", "Reply", "Release", "Withdraw", "Deny", "Propose", "Settings", "Named", "Detach", "Move",
	"Sync", "Report", "Join", "Offer", "Attach", "Accept", "Refuse", "Beacon", "Resend", "Beat", "BeatAck", "Goodbye", "Handover",
	"Token", "Ack", "Failed", "Inquire", "Yield", "Receipt", "Schedule",
}

// Valid reports whether k is a kind of message.
func (k Kind) Valid() bool { return k > KindNone && k < kindEnd }

func (k Kind) String() string {
	if k < kindEnd {
		return kindNames[k]
	}
	return "Kind?"
}

// Counted reports whether k is one of the messages that the papers count:
// Request, Reply, Release and Sync (with its answer), the withdrawal and refusal
// of a request, a schedule, and all that other algorithms exchange. Tree upkeep, heartbeats
// and receipts are not.
func (k Kind) Counted() bool {
	return k >= KindRequest && k <= KindDeny || k == KindSync || k == KindReport || k >= KindToken && k <= KindYield || k == KindSchedule
}

// Flags qualify a message.
type Flags uint16

// Flags of a message, each with the kinds it belongs to.
const (
	FlagTry       Flags = 1 << iota // Request: never queue it, grant or refuse
	FlagReturned                    // Release: the target did not enter; its request is not there
	FlagRepeated                    // Release: not the token, but word that it may be lost; Request: another was sent before, here or below
	FlagFree                        // Offer: a child slot is free
	FlagRoot                        // Offer: the sender is the root
	FlagExpired                     // BeatAck: that session is over; ask for a new one
	FlagWanted                      // Token: the sender wants it back, as Priority, Hops and Number say
	FlagCandidate                   // Beat: the sender can become the root
	FlagParting                     // Attach: the sender is about to leave for good
	FlagSlow                        // Beat: messages to the sender take long; do not grant to it provisionally
	FlagInherits                    // Offer: the sender is the root, and takes over sessions and holds of the term before
	FlagChange                      // Propose: also in the place of what was declared
	FlagRetain                      // Reply: its target may keep the token when it leaves; Release: it does, and tells of an entry only
	FlagDirect                      // Reply: from the participant that had the token, not on a link; Release: not the token, which was sent so on Grant; Sync: what became of the grants up to this one?
	flagEnd
)

// Reason says why a request was refused.
type Reason uint8

// Reasons of a refusal.
const (
	ReasonNone         Reason = iota
	ReasonBusy                // TryLock: the resource is not free now
	ReasonUndeclared          // the topic has no such resource
	ReasonNoResource          // Any, but the topic declares no resources
	ReasonFull                // too many requests wait already
	ReasonClosed              // the participant is leaving
	ReasonUnattainable        // admission: the deadline cannot be promised
	ReasonMissed              // the deadline passed while the request waited
	ReasonUnsupported         // the algorithm has no such request
	reasonEnd
)

func (r Reason) String() string {
	names := [...]string{
		"none", "busy", "undeclared resource", "no declared resources", "too many waiting", "closed",
		"deadline unattainable", "deadline missed", "not supported by the algorithm",
	}
	if int(r) < len(names) {
		return names[r]
	}
	return "unknown"
}

// Verdict is the answer to a Sync.
type Verdict uint8

// Verdicts. Each binds its sender: it never enters on that grant afterwards
// unless it answered Holding.
const (
	VerdictNone    Verdict = iota
	VerdictNever           // never had it, or gave it up, and refuses it from now on
	VerdictHolding         // inside
	VerdictPassed          // passed it to PassedTo
	verdictEnd
)

// Entry is one entry that was made on a grant: which request, with which fence.
type Entry struct {
	ID    RequestID
	Fence uint64
}

// Wish is a waiting request that travels with a token, or in Suzuki and Kasami's
// token the number of a participant's last request that was served.
type Wish struct {
	ID       RequestID
	Priority int64
	Within   Duration // from when the message is sent until it must be inside; 0: no deadline
	Hold     Duration // how long it will be held; 0: unknown
}

// Scheduled is one request of a schedule: what its participant needs to enter on the
// grant that the root has numbered for it, in the term of the message.
type Scheduled struct {
	Number   uint64 // of the grant
	ID       RequestID
	Priority int64
	Fence    uint64
	Session  uint64 // of the participant
}

// TokenState is one hold in a heartbeat: on which grant, and with which fence. In a
// Handover it is one token that rests, of which only the Resource counts. Who asks to go on with
// what its former process held does not know the grant; Target is then what it calls the hold.
type TokenState struct {
	Resource string
	Grant    Grant
	Target   RequestID
	Fence    uint64
	Client   string // on whose behalf it is held; empty: the participant's own
}

// Former names the session of a process that has ended, by the word of the one that was started
// in its place. A Session of 0: there was none.
type Former struct{ Incarnation, Session uint64 }

// Renewal names one write of the record of a topic by its root: see package register.
type Renewal struct{ Counter, Nonce uint64 }

// Settings is what holds for a whole lock topic. The root owns it; Version rises
// with each change.
//
// Models are one part, Resources and Open another. A part that somebody has declared
// names who did; one that names nobody is a default, and gives way to the first
// declaration.
type Settings struct {
	Version     uint64
	Models      Models
	Open        bool     // any id but Resources is accepted as well; here, as a message is copied often
	ModelsBy    string   // who declared the models
	Resources   []string // declared ids, sorted
	ResourcesBy string   // who declared Resources and Open
}

// Proposal asks for other settings: for the parts that name who asks.
type Proposal struct {
	Settings
	Change bool // what is declared is to change, too; else only defaults give way
}

// Apply puts what p asks for in force and counts the version up. It reports whether
// anything is different then.
func (s *Settings) Apply(p *Proposal) bool {
	changed := false
	if p.ModelsBy != "" && (s.ModelsBy == "" || p.Change && s.Models != p.Models) {
		s.Models, s.ModelsBy, changed = p.Models, p.ModelsBy, true
	}
	if p.ResourcesBy != "" && (s.ResourcesBy == "" || p.Change && !(s.Open == p.Open && slices.Equal(s.Resources, p.Resources))) {
		s.Resources, s.Open, s.ResourcesBy, changed = p.Resources, p.Open, p.ResourcesBy, true
	}
	if changed {
		s.Version++
	}
	return changed
}

// Same reports whether two settings are equal.
func (s *Settings) Same(o *Settings) bool {
	return s.Version == o.Version && s.Models == o.Models && s.ModelsBy == o.ModelsBy &&
		slices.Equal(s.Resources, o.Resources) && s.Open == o.Open && s.ResourcesBy == o.ResourcesBy
}

// Validate reports what no topic can have: a resource without a name, or more of them
// than its record has room for. The error wraps ErrRecord.
func (s *Settings) Validate() error {
	for _, name := range s.Resources {
		if name == "" || name == Any || len(name) > MaxName || !utf8.ValidString(name) {
			return fmt.Errorf("%w: a resource cannot be named %.20q: take UTF-8 of 1 to %d bytes, not %q", ErrRecord, name, MaxName, Any)
		}
	}
	for _, by := range []string{s.ModelsBy, s.ResourcesBy} {
		if len(by) > MaxName || !utf8.ValidString(by) {
			return fmt.Errorf("%w: the name %.20q of who declared the settings is not UTF-8 of at most %d bytes", ErrRecord, by, MaxName)
		}
	}
	if n := len(appendSettings(nil, s)); n > maxSettings {
		return fmt.Errorf("%w: the settings take %d bytes, at most %d are allowed: declare fewer resources, or open the topic to any", ErrRecord, n, maxSettings)
	}
	return nil
}

// Message is one message between two participants, or from one to all (To is
// zero). It is one flat struct so that it can be reused without allocating.
// Every message carries Kind, Flags, From, To, Epoch, Link, Seq, Ack and Clock,
// and in addition, by kind:
//
//	Request   ID Priority Resource Hops Hidden Within Hold Client
//	Reply     ID Priority Resource Grant Fences Session Path Until Schedule (what comes after it)
//	Release   ID Resource Grant Fences Entries
//	Withdraw  ID Resource
//	Deny      ID Resource Reason
//	Propose   Settings (the parts that name who declares them)
//	Settings  Settings
//	Named     -
//	Detach    -
//	Move      MoveTo
//	Sync      ID Resource Grant
//	Report    ID Resource Grant Verdict PassedTo Entries (of Holding: the one that goes on) Priority Client (both of its request)
//	Join      Priority Parent (ID only: the parent wanted; zero: any) TTL (of the topic, if it is created now; 0: any)
//	Offer     Root Priority Depth Least LeastP Path Register
//	Attach    Priority Session
//	Accept    Root Depth TTL Number Members Settings Path
//	Refuse    Reason
//	Beacon    Root Priority Depth Number Members Path
//	Resend    -
//	Beat      Session Sent Attempt Priority Parent Tokens (to a new root: those held; else: those whose hold is not confirmed; with Former: those that it held) Former
//	BeatAck   Session Sent Attempt TTL Valid Renewal Rank Grant (to who asked for a session: the newest before it) Register Tokens (of Former that go on)
//	Goodbye   Session (to the root) Ended (by the root)
//	Handover  Tokens Sessions Within (if the former root did not know yet of all who may hold)
//	Token     ID Priority Resource Hops Number Fences Within Hold Path Wishes
//	Ack       ID Resource Fences
//	Failed    ID Resource
//	Inquire   ID Resource
//	Yield     ID Resource
//	Receipt   -
//	Schedule  Resource Grant (the newest that is numbered so far) Schedule
//
// Path, Entries, Resources, Tokens, Sessions, Wishes and Schedule of a message in an [Output]
// belong to the machine and are valid only until its next Step; those of a
// message in an [Input] belong to the caller, and the machine copies them.
type Message struct {
	Kind     Kind
	Flags    Flags
	Reason   Reason  // why not; these four share a word
	Verdict  Verdict // Report
	From, To Node
	Epoch    Epoch
	Root     Node // of the epoch, where the sender knows it

	Link uint64 // which attachment of the child this message belongs to
	Seq  uint64 // number on the link; on a Beacon, the last one sent; 0: a datagram
	Ack  uint64 // highest number received in order on the link

	ID       RequestID // the request in question; of a Reply, Release or Sync, the target's
	Clock    uint64    // the sender's Lamport clock
	Priority int64     // of the request, or of the participant; smaller is more important
	Client   string    // on whose behalf the request was made; empty: the participant's own
	Resource string
	Hops     uint32 // links that the request traveled
	Hidden   uint32 // Request: how many more the sender keeps to itself
	Depth    uint32 // Offer, Beacon, Accept: links from the sender to the root
	Members  uint32 // Accept, Beacon: participants of the topic

	Grant    Grant
	Fences   Fences
	Session  uint64   // Reply, BeatAck: the receiver's; Attach, Beat, Goodbye: the sender's; 0 in a Beat asks for one
	Sent     Time     // Beat: the sender's clock; BeatAck: its echo
	Attempt  uint64   // Beat: how often the sender has asked for a session; BeatAck: its echo
	Number   uint64   // Beacon, Accept: the root's count of beacons; Token: as the algorithm says
	TTL      Duration // session time-to-live in force; Join: the one wanted
	Valid    Duration // BeatAck: how long the session lasts from Sent on, by the receiver's clock
	Renewal  Renewal  // BeatAck: the newest one of the root's lease that is known to be written
	Rank     uint32   // BeatAck: how many candidates come before the receiver when the root is to be replaced
	Register uint64   // Offer, BeatAck: the short form of the domain of the register that names Root; 0: none does
	Within   Duration // Request: from when it is sent until it must be inside; 0: no deadline. Handover: for how long somebody may hold of whom its sender does not know; 0: nobody does
	Until    Time     // Reply: the grant ends then on the target's clock unless the root confirms the hold; 0: it ends with the session
	Hold     Duration // Request: how long the application will hold; 0: it did not say
	Parent   Node     // Beat: the sender's; Join: the only one that will do
	MoveTo   Node     // Move: whom to attach to
	Least    Node     // Offer: the least important child
	Ended    Node     // Goodbye by the root: the receiver's parent or child, whose session has ended
	Former   Former   // Beat that asks for a session: of the process that was in the sender's place
	LeastP   int64    // Offer: priority of Least
	PassedTo Node     // Report: whom the grant was passed to

	Settings Settings // Accept, Settings, Propose
	Path     []Node   // Offer, Accept, Beacon: ancestors, root first; Reply: as the algorithm says
	Entries  []Entry  // Release, Report: made on the grant
	Tokens   []TokenState
	Sessions []Node
	Wishes   []Wish
	Schedule []Scheduled
}
