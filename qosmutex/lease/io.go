package lease

import "padme/qosmutex/protocol"

// Input is what happened, one thing or several at once. The zero Input is a tick: time
// has passed.
type Input struct {
	// Answer is the register's, to the Request of an earlier Output. The driver gives
	// one to each, in time: what is not answered within an eighth of the lease is
	// Unknown.
	Answer *Answer
	// Said is what the lock machine of this participant says after a step: see listen.
	Said *protocol.Output
	// Successor, at a root whose lock machine has stopped, is who is to be the root.
	Successor protocol.Node
	// Died is known to have ended: its lease need not be waited for.
	Died protocol.Node
	// Resign: the participant gives up being a candidate, for good.
	Resign bool
}

// Outcome says what came of a request. Of an error of package register, one that is
// ErrConflict is a Conflict, another one that is ErrUnknown is Unknown, and the rest are
// Failed; so is a record that cannot be decoded.
type Outcome uint8

// Outcomes.
const (
	Done     Outcome = iota // it was read, or written
	Conflict                // it was not written: Entry is what the register has
	Unknown                 // there was no answer: a write may have been made, or may still be
	Failed                  // it was not read, or not written and will not be
)

// Answer is what the register says to a Request.
type Answer struct {
	Outcome Outcome
	Entry   Entry // Done: what was read, or the version written; Conflict: what is there
	// Age: the register has been there for that long, at least. A topic that it does
	// not have may have been in another one before.
	Age protocol.Duration
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
	Write Write // WriteRecord
}

// Output is what follows from an input. The caller owns it, and hands the same one to
// every Step.
type Output struct {
	// Tell are inputs of the lock machine of this participant, in this order: Appointed,
	// Extended, Configure, Succeeded, Dismissed, Bar and Unbar. It MUST have taken them,
	// and everything that follows MUST be done, before Request is sent.
	Tell []protocol.Input
	// Request is to be asked of the register. Until it is answered there is no other.
	Request Request
	// WakeAt is when to Step even if nothing else happens.
	WakeAt protocol.Time
}

func (o *Output) reset() { *o = Output{Tell: o.Tell[:0], WakeAt: protocol.Never} }

func (o *Output) tell(in protocol.Input) { o.Tell = append(o.Tell, in) }
