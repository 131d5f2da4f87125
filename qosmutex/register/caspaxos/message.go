package caspaxos

import "padme/qosmutex/register"

// Kind tells messages apart.
type Kind uint8

// Kinds of messages. Those between voters name the configuration of their sender.
const (
	KindNone     Kind = iota
	KindEnroll        // a voter without a configuration offers its instance
	KindCurrent       // this is the configuration now
	KindReject        // the receiver cannot be a voter; Reason says why
	KindHello         // a sign of life
	KindPrepare       // promise Ballot for Keys
	KindPromise       // promised; Slots are what was accepted for each of the Keys
	KindAccept        // accept Slots under Ballot
	KindAccepted      // accepted
	KindRefused       // not promised or not accepted: Round is the one to be above
	KindRead          // what was accepted for Keys?
	KindValues        // Slots are what was accepted for each of the Keys
	KindFetch         // what was accepted for all keys above After? Next is decided
	KindPage          // Slots are that, and More follows
	KindRequest       // a client's Keys to read, or Writes
	KindReply         // what came of a Request
	KindInquire       // what do you know about yourself and the others?
	KindReport        // Text is that, as the runtime puts it
	KindReplace       // an operator has New take the place of Old
	KindReplaced      // what came of a Replace: Text says what was wrong, if anything
	kindEnd
)

var kindNames = [...]string{
	"None", "Enroll", "Current", "Reject", "Hello", "Prepare", "Promise", "Accept", "Accepted", "Refused",
	"Read", "Values", "Fetch", "Page", "Request", "Reply", "Inquire", "Report", "Replace", "Replaced",
}

// String returns the name of a kind.
func (k Kind) String() string {
	if k < kindEnd {
		return kindNames[k]
	}
	return "unknown"
}

// Reason says why a participant cannot be a voter.
type Reason uint8

// Reasons.
const (
	ReasonNone     Reason = iota
	ReasonVoters          // it was started with another list of voters
	ReasonWiped           // another file was enrolled under its name
	ReasonDomain          // its file belongs to another domain
	ReasonRestored        // its file is older than what it has said
	reasonEnd
)

// Message is what voters and their clients send each other. Which fields are carried
// depends on Kind; the first five are in every message.
type Message struct {
	Kind   Kind
	From   string // set by the sender, checked by the transport
	To     string
	Domain register.Domain // zero: not known
	Config uint32          // number of the sender's configuration; 0: it has none
	Run    Run             // of a voter; zero: of a client

	Ballot Ballot // Prepare, Promise, Accept, Accepted, Refused
	Round  uint64 // Refused
	Large  bool   // Refused, Reply: the values together do not fit into a message

	Seq    uint64   // Read, Values, Refused, Request, Reply, Inquire to Replaced: of the question
	Keys   []string // Prepare, Read, Request
	Slots  []Slot   // Promise, Accept, Values, Page
	Writes []register.Write
	Within Time // Request, Replace: the voter gives up after this long

	Voters []string // Enroll; Reject: those that the sender knows
	Reason Reason   // Reject
	About  uint64   // Reject: Boot of the run that it is about
	Next   *Config  // Current, Fetch

	Target    uint32 // Page: of the configuration that was asked for
	After     string // Fetch, Page
	More      bool   // Page
	Installed bool   // Page: the sender votes in that configuration

	Outcomes []Outcome // Reply: of each key or write
	Failed   bool      // Reply, Replaced: no majority answered; Missing did not
	Unknown  bool      // Reply: if Failed, the writes may have been made
	Missing  []string

	Old, New string // Replace: voters
	Text     string // Report, Replaced
}

// Run tells apart the runs of a voter, and lets others notice that its file was
// replaced by an older one.
type Run struct {
	Instance uint64 // of the file
	Boot     uint64 // how often the file was opened, times 2³², and a random number
	Base     uint64 // how many records the file had at the start of the run
	Serial   uint64 // and now
}

// Outcome is what came of one key or write of a Request.
type Outcome struct {
	Conflict bool // of a write: it was not made, and State is what the key holds
	Unknown  bool // of a conflict: it may have been made and replaced since
	State    State
}

// Limits of one message.
const (
	MaxBatch = 1024      // keys or writes
	MaxBytes = 128 << 10 // of the keys and values of one message
	MaxText  = 16 << 10  // bytes
)
