package gateway

import (
	"encoding/json"
	"errors"

	"padme/qosmutex"
)

// Outcome is how a client's request stands.
type Outcome string

// Outcomes. Granted and Waiting may change, the others are final.
const (
	Granted  Outcome = "granted"
	Waiting  Outcome = "waiting"
	Denied   Outcome = "denied"   // it will not be served; Reason says why
	Lost     Outcome = "lost"     // the hold is no longer valid, or the gateway does not know the request
	Expired  Outcome = "expired"  // the client did not renew its lease
	Released Outcome = "released" // the client ended it
)

// Reason says why, in a word that programs can test for.
type Reason string

// Reasons.
const (
	Malformed   Reason = "malformed"
	TooLarge    Reason = "too_large"
	BadOp       Reason = "bad_op"
	BadID       Reason = "bad_id"
	BadResource Reason = "bad_resource"
	BadPriority Reason = "bad_priority"
	BadWait     Reason = "bad_wait"
	BadLease    Reason = "bad_lease"
	TooMany     Reason = "too_many" // requests of this client, or clients
	TooFast     Reason = "too_fast" // more requests a second than are read
	Stale       Reason = "stale"    // a retained request, from who knows when
	Overload    Reason = "overload" // the gateway reads too slowly; not answered
	NotOffered  Reason = "not_offered"

	Busy       Reason = "busy"       // with wait_ms 0, or the topic has too many waiting
	WaitOver   Reason = "wait_over"  // wait_ms is over
	Undeclared Reason = "undeclared" // the lock topic has no such resource
	Refused    Reason = "refused"    // for another reason; Detail says it
	Unknown    Reason = "unknown"    // the gateway has no such request; perhaps its predecessor had
	Ended      Reason = "ended"      // the gateway has ended, or handed its role over
	GoneAway   Reason = "gone"       // the session's last will came
)

// Answer is what a client reads.
type Answer struct {
	ID      string  `json:"id"`
	Session string  `json:"session,omitempty"`
	Op      Op      `json:"op,omitempty"` // that is answered; none if the gateway speaks unasked
	Outcome Outcome `json:"outcome"`
	Reason  Reason  `json:"reason,omitempty"`
	Detail  string  `json:"detail,omitempty"` // for people

	Resource string `json:"resource,omitempty"`
	Priority *int64 `json:"priority,omitempty"`
	Fence    string `json:"fence,omitempty"`    // decimal: it may be above 2^53
	Position int    `json:"position,omitempty"` // of a waiting request; 1 is the next

	// Sent is that of the request from which ValidMS counts: the one answered, or the
	// last acquire or renew.
	Sent json.Number `json:"sent,omitempty"`
	// ValidMS is for how long after Sent the client may believe what Outcome says:
	// that it is inside, or that it waits without renewing.
	ValidMS *int64 `json:"valid_ms,omitempty"`

	Gateway string `json:"gateway"` // participant
}

// reasonOf is the reason of a lock that was not had.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, qosmutex.ErrTimeout):
		return WaitOver
	case errors.Is(err, qosmutex.ErrBusy), errors.Is(err, qosmutex.ErrFull):
		return Busy
	case errors.Is(err, qosmutex.ErrUndeclared):
		return Undeclared
	case errors.Is(err, qosmutex.ErrInvalidName):
		return BadResource
	}
	return Refused
}
