package protocol

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
	KindPropose  // child → parent: the application asks for other models
	KindSettings // parent → child: models and resources in force
	KindNamed    // child → parent: every live request has been named since Attach
	KindDetach   // child → parent: I leave you. parent → child: attach to Peer instead
	KindHandover // root → child: you are the root now

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
	KindGoodbye // participant → root: my session ends now

	// Views: who is the root, and by whose votes.
	KindLead    // root → voter: I still am the root, by these voters
	KindPledge  // voter → root: for a while I vote for nobody else
	KindCanvass // candidate → voter: I would be the root of this epoch
	KindVote    // voter → candidate

	// The other algorithms, between participants that know each other beforehand.
	// Request, Reply, Release, Withdraw and Deny are theirs, too.
	KindToken   // the token, where it is not a Reply
	KindAck     // Lamport: I have your request; deadlines: it is accepted
	KindFailed  // Maekawa: a more important request has my vote
	KindInquire // Maekawa: may I have my vote back?
	KindYield   // Maekawa: have it back
	KindReceipt // of a channel: everything up to Ack has come

	kindEnd
)

var kindNames = [kindEnd]string{
	"None", "Request", "Reply", "Release", "Withdraw", "Deny", "Propose", "Settings", "Named", "Detach", "Handover",
	"Sync", "Report", "Join", "Offer", "Attach", "Accept", "Refuse", "Beacon", "Resend", "Beat", "BeatAck", "Goodbye",
	"Lead", "Pledge", "Canvass", "Vote",
	"Token", "Ack", "Failed", "Inquire", "Yield", "Receipt",
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
// of a request, and all that other algorithms exchange. Tree upkeep, heartbeats
// and receipts are not.
func (k Kind) Counted() bool {
	return k >= KindRequest && k <= KindDeny || k == KindSync || k == KindReport || k >= KindToken && k <= KindYield
}

// Flags qualify a message.
type Flags uint16

// Flags of a message, each with the kinds it belongs to.
const (
	FlagTry      Flags = 1 << iota // Request: never queue it, grant or refuse
	FlagReturned                   // Release: the target did not enter; its request is not there
	FlagRepeated                   // Release: sent before on a link that is lost; a receipt, not the token
	FlagFounding                   // Join: the sender means to found the topic
	FlagFree                       // Offer: a child slot is free
	FlagRoot                       // Offer: the sender is the root
	FlagDisplace                   // Attach: take the slot of your least important child
	FlagLapsed                     // BeatAck: that session is over; ask for a new one
	FlagWanted                     // Token: the sender wants it back, as Priority, Hops and Number say
	FlagRooted                     // Beat: the sender keeps its place in the tree, so it cannot become the root
	FlagProbe                      // Canvass, Vote: only asking; no vote is given. Refuse: no objection to the founding
	FlagRefused                    // Vote: no; Number is the highest epoch that the voter knows. Goodbye: our vote is another's. Refuse: to a founder that handed over to us
	FlagParting                    // Attach: the sender is about to leave for good
	FlagAlone                      // BeatAck: no other voter confirms the root
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
	VerdictPassed          // passed it to Peer
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
	Hold     Duration // how long it will stay; 0: unknown
}

// TokenState describes one token in a Handover.
type TokenState struct {
	Resource string
	Out      bool // the grant below is still out; else the token is at home
	Grant    Grant
	Target   RequestID
	Fence    uint64 // the next fence to hand out, above every range reserved
	Path     []Node // the way the grant was sent, the old root first
}

// SessionState describes one session in a Handover.
type SessionState struct {
	Node     Node
	Number   uint64
	Priority int64
	Parent   Node
}

// Settings is what holds for a whole lock topic. The root owns it; Version rises
// with each change.
type Settings struct {
	Version   uint64
	Models    Models
	Resources []string // declared ids, sorted
	Open      bool     // any other id is accepted as well
}

// Message is one message between two participants, or from one to all (To is
// zero). It is one flat struct so that it can be reused without allocating.
// Every message carries Kind, Flags, From, To, Epoch, Link, Seq, Ack and Clock,
// and beside them, by kind:
//
//	Request   ID Priority Resource Hops Waiting Within Hold
//	Reply     ID Priority Resource Grant Fences Session Path
//	Release   ID Resource Grant Fences Entries
//	Withdraw  ID Resource
//	Deny      ID Resource Reason
//	Propose   Settings (Models only)
//	Settings  Settings
//	Named     -
//	Detach    Peer
//	Handover  Number Settings TTL Grant (the name of the voters) Fences Path (the voters) Tokens Sessions
//	Sync      ID Resource Grant
//	Report    ID Resource Grant Verdict Peer
//	Join      Priority Peer (ID only: the parent wanted, or nobody) Grant (of a founder: the name of its voters)
//	Offer     Root Priority Hops Peer PeerP Path
//	Attach    Priority Session
//	Accept    Root Hops TTL Number Waiting Settings Path
//	Refuse    Reason Grant (of who objects to a founding, or with FlagProbe does not: the name of the newest voters it knows; with FlagRefused: the epoch that the sender was to take over and will not)
//	Beacon    Root Priority Hops Number Waiting Path
//	Resend    -
//	Beat      Session Sent Number Priority Peer Tokens (to a new root: those held)
//	BeatAck   Session Sent Number TTL Fences Grant (to who asked for a session: the newest before it)
//	Goodbye   Session
//	Lead      Sent TTL Number Fences Path (the voters)
//	Pledge    Sent Number Fences
//	Canvass   Sent Grant (the name of its voters)
//	Vote      Sent Number Fences Grant Path
//	Token     ID Priority Resource Hops Number Fences Within Hold Path Wishes
//	Ack       ID Resource Fences
//	Failed    ID Resource
//	Inquire   ID Resource
//	Yield     ID Resource
//	Receipt   -
//
// Path, Entries, Resources, Tokens, Sessions and Wishes of a message in an [Output]
// belong to the machine and are valid only until its next Step; those of a
// message in an [Input] belong to the caller, and the machine copies them.
type Message struct {
	Kind     Kind
	Flags    Flags
	From, To Node
	Epoch    Epoch
	Root     Node // of the epoch, where the sender knows it

	Link uint64 // which attachment of the child this message belongs to
	Seq  uint64 // number on the link; on a Beacon, the last one sent; 0: a datagram
	Ack  uint64 // highest number received in order on the link

	ID       RequestID // the request in question; of a Reply, Release or Sync, the target's
	Clock    uint64    // the sender's Lamport clock
	Priority int64     // of the request, or of the participant; smaller is more important
	Resource string
	Hops     uint32 // Request: links travelled; Offer, Beacon, Accept: depth of the sender
	Waiting  uint32 // Request: how many more the sender keeps to itself; Accept, Beacon: members of the topic

	Grant   Grant
	Fences  Fences
	Session uint64   // Reply, BeatAck: the receiver's; Attach, Beat, Goodbye: the sender's; 0 in a Beat asks for one
	Sent    Time     // Beat, Lead, Canvass: the sender's clock; BeatAck, Pledge, Vote: its echo
	Number  uint64   // Beacon, Accept: the root's count of beacons; Beat: the how-manieth session asked for, BeatAck: its echo; Handover: grants made so far; Lead: version of the voters, Pledge: its echo; Vote: an epoch's number
	TTL     Time     // session time-to-live in force
	Within  Duration // Request: from when it is sent until it must be inside; 0: no deadline
	Hold    Duration // Request: how long the application will stay; 0: it did not say
	Peer    Node     // Report: passed to; Offer: least important child; Detach: attach there; Beat: parent; Join: parent wanted
	PeerP   int64    // Offer: priority of Peer
	Reason  Reason   // why not
	Verdict Verdict  // Report

	Settings Settings // Accept, Settings, Propose (Models only), Handover
	Path     []Node   // Offer, Accept, Beacon: ancestors, root first; Lead: the voters; Vote: the newer ones that Grant numbers; Reply: as the algorithm says
	Entries  []Entry  // Release
	Tokens   []TokenState
	Sessions []SessionState
	Wishes   []Wish
}
