package lease

import "padme/qosmutex/protocol"

// InputKind says what happened.
type InputKind uint8

// Inputs of a machine.
const (
	Tick InputKind = iota // time has passed

	// ReadDone and WriteDone answer the Request of an earlier Output. The driver
	// answers each once, in time: one that is not answered within an eighth of the
	// lease is Unknown, if it is a write, or Failed.
	ReadDone
	WriteDone

	// Heard: the root's beacon names Version as the newest that it knows to be made,
	// and its Term. The root sends one as soon as it is Appointed or Extended: a
	// candidate that has heard nothing new for three eighths of the lease reads the
	// record. What a beacon says is never an authority: it saves reads.
	Heard
	// Echo: something that this participant sent at the instant Sent came back to it
	// over the broker, and its machine has taken the step. Every candidate needs one
	// several times in each lease: a participant that does not hear itself writes
	// nothing, so a root that reaches the register but not the members gives way.
	Echo

	// Claimed: somebody says that a root of this topic is named by a register, this one or
	// another. A claim of a root of another register counts for a grace of that topic's
	// TTL. Meanwhile this candidate makes no record of the topic, and where the claim is
	// of a later epoch than the record it is not the root, nor becomes it.
	Claimed

	// Remembered: somebody who looks for a root knows Term, later than this root's, of a
	// root of another register that is gone, and follows nobody below it. The root
	// begins another term, at most once in two graces.
	Remembered

	Propose       // at the root: a participant asks for the settings of Declaration
	RaiseCeiling  // at the root: it needs fences up to Fence; see Extended
	NameSuccessor // at the root: it stops, and Node becomes the root
	Resign        // the participant gives up being a candidate, for good
	SetRank       // its position among the candidates becomes Rank
	Died          // Node is known to have ended: its lease need not be waited for
	Renew         // another topic's renewal is about to be sent: renew along with it if it is not too early
)

// Outcome says what came of a request. Of an error of package register, one that is
// ErrConflict is a Conflict, another one that is ErrUnknown is Unknown, and the rest are
// Failed; so is a record that cannot be decoded.
type Outcome uint8

// Outcomes.
const (
	Done     Outcome = iota // it was read, or written
	Conflict                // it was not written: Entry is what the register has
	Unknown                 // it may have been written, or may still be
	Failed                  // it was not read, or not written and will not be
)

// Input is one thing that happened.
type Input struct {
	Kind        InputKind
	Ref         uint64  // ReadDone, WriteDone: of the Request
	Outcome     Outcome // ReadDone, WriteDone
	Entry       Entry   // ReadDone: what was read; WriteDone: the version written, or of a Conflict what is there
	Version     Version // Heard
	Term        uint64  // Heard; 0: the beacon does not say
	Sent        protocol.Time
	Declaration Declaration
	Fence       uint64
	Node        protocol.Node
	Rank        int // 0: the most important
	Claim       protocol.Claim
	// Age, of ReadDone: the register has been there for that long, at least. A topic
	// that it does not have may have been in another one before.
	Age protocol.Duration
}

// Declaration is a participant's choice of a topic's settings.
type Declaration struct {
	Settings protocol.Settings // Version is ignored
	By       string
	// Change replaces settings that others declared, instead of being a conflict with
	// them: it is how an operator or an application switches the models.
	Change bool
}

// RequestKind says what is asked of the register.
type RequestKind uint8

// Requests.
const (
	NoRequest RequestKind = iota
	ReadRecord
	WriteRecord
)

// Request is something to ask of the register.
type Request struct {
	Kind  RequestKind
	Ref   uint64 // for the answer
	Write Write  // WriteRecord
}

// Output is what follows from an input. The caller owns it, hands the same one to
// every Step, and handles its fields in the order given here.
type Output struct {
	// Dismissed: this participant is not the root any more. It MUST stop granting, and
	// end its own holds, before Request is sent.
	Dismissed bool
	// Request is to be asked of the register. Until it is answered there is no other.
	Request Request
	// Appointed: this participant is the root now.
	Appointed *Appointed
	// Extended: it is the root for longer.
	Extended *Extended
	// Changed: the record says something new, other than by a renewal; nil: it doesn't.
	Changed *Entry
	// Disagreement: settings are declared already, and others.
	Disagreement *Disagreement
	// Absent: the topic has no record, and this participant may not create it.
	Absent bool
	// Elsewhere: from now on a root of another register keeps this one from being the
	// root; it is told once until that is over. nil: it doesn't.
	Elsewhere *Elsewhere
	// Departed: after Resign, nothing is left to do. The machine does nothing more.
	Departed bool
	// WakeAt is when to Step with a Tick even if nothing else happens.
	WakeAt protocol.Time
}

// Appointed tells a participant that it is the root.
type Appointed struct {
	Entry                 // Term, Settings and Ceiling are in its Record
	Until   protocol.Time // it acts only while its clock is below
	Renewed protocol.Time // the first send of the newest write that is known to be made
	First   uint64        // the first fence that it may hand out; all are below Record.Ceiling
	// Heard is from when on it counts the grace in which it grants nothing that may be out
	// elsewhere: when it first learnt of the last renewal before its term; of a new topic,
	// when the register was new; now, after a root of another register.
	Heard protocol.Time
}

// Extended tells the root that a write of its own is known to be made.
type Extended struct {
	Version Version // for its beacons
	Until   protocol.Time
	Renewed protocol.Time
	Ceiling uint64 // the root hands out fences below it
}

// Elsewhere is a root of the topic that another register names.
type Elsewhere struct {
	Claim   protocol.Claim
	Stopped bool // this participant was the root, and stops for it
}

// Disagreement is a declaration that the record's settings contradict.
type Disagreement struct {
	InForce, Declared     protocol.Settings
	InForceBy, DeclaredBy string
}

func (o *Output) reset() { *o = Output{WakeAt: protocol.Never} }
