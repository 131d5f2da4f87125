package jsonlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxAnswer bounds an answer that is read, in bytes: names and a sentence for people.
const MaxAnswer = 8192

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
	Shown    Outcome = "shown"    // of no request: the answer to Show
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
	TooMany     Reason = "too_many" // requests of this client; or clients, requests or lock topics of the gateway
	TooFast     Reason = "too_fast" // more requests a second than are read
	Stale       Reason = "stale"    // a retained request, from who knows when
	Overload    Reason = "overload" // the gateway has more to read than it keeps: ask again in a while
	NotOffered  Reason = "not_offered"

	Busy         Reason = "busy"         // with wait_ms 0, or the topic has too many waiting
	NotReady     Reason = "not_ready"    // nobody can grant now; Detail says why. Also of Waiting
	WaitOver     Reason = "wait_over"    // wait_ms is over
	Undeclared   Reason = "undeclared"   // the lock topic has no such resource
	Unattainable Reason = "unattainable" // within_ms cannot be promised
	Missed       Reason = "missed"       // within_ms is over
	Unsupported  Reason = "unsupported"  // within_ms for any resource, under models that promise it
	Refused      Reason = "refused"      // for another reason; Detail says it
	Unknown      Reason = "unknown"      // the gateway has no such request; perhaps its predecessor had
	Ended        Reason = "ended"        // the gateway has ended, or handed its role over
	GoneAway     Reason = "gone"         // the session's last will came
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

	// Warning is for people: the request does what it says, but perhaps not what was meant.
	Warning string `json:"warning,omitempty"`

	// Of Shown alone.
	Models    string   `json:"models,omitempty"`
	Resources []string `json:"resources,omitempty"` // declared
	Open      bool     `json:"open,omitempty"`      // any other name is a resource, too
	TTLMS     int64    `json:"ttl_ms,omitempty"`

	Gateway string `json:"gateway"` // participant
}

// DecodeAnswer reads a payload. Fields that are not known are ignored: later versions
// may have more, and other outcomes and reasons. What it returns is consistent: a
// granted answer has a fence, and one that is valid for some time says since when.
func DecodeAnswer(payload []byte) (Answer, error) {
	if len(payload) > MaxAnswer {
		return Answer{}, fmt.Errorf("jsonlock: answer of %d bytes, the most is %d", len(payload), MaxAnswer)
	}
	if !utf8.Valid(payload) {
		return Answer{}, errors.New("jsonlock: an answer that is not UTF-8")
	}
	var a Answer
	if err := json.Unmarshal(payload, &a); err != nil {
		return Answer{}, fmt.Errorf("jsonlock: an answer that cannot be read: %.100s", err.Error())
	}
	if err := a.check(); err != nil {
		return Answer{}, err
	}
	return a, nil
}

func (a *Answer) check() error {
	switch {
	case !nameOK(a.ID) || !nameOK(a.Session) || len(a.Sent) > MaxSent:
		return errors.New("jsonlock: an answer to what nobody can have asked: its id, session or sent is too long")
	case a.Outcome == "":
		return errors.New("jsonlock: an answer without an outcome")
	case a.Position < 0:
		return fmt.Errorf("jsonlock: an answer with position %d", a.Position)
	case a.ValidMS != nil && (*a.ValidMS < 0 || *a.ValidMS > MaxLease.Milliseconds()):
		return fmt.Errorf("jsonlock: an answer that is valid for %d ms, the most is %d", *a.ValidMS, MaxLease.Milliseconds())
	case a.Outcome != Granted:
		return nil
	case a.ValidMS == nil:
		return errors.New("jsonlock: a grant that does not say for how long it is valid")
	case a.Resource == "" || a.Resource == Any || CheckResource(a.Resource) != nil:
		return fmt.Errorf("jsonlock: a grant of resource %.40q", a.Resource)
	}
	_, err := a.FenceNumber()
	return err
}

// Final reports whether the request is over.
func (a *Answer) Final() bool { return a.Outcome != Granted && a.Outcome != Waiting }

// Valid is for how long after the request that Sent names the client may believe the
// answer; 0: it does not say.
func (a *Answer) Valid() time.Duration {
	if a.ValidMS == nil {
		return 0
	}
	return time.Duration(*a.ValidMS) * time.Millisecond
}

// FenceNumber reads Fence.
func (a *Answer) FenceNumber() (uint64, error) {
	fence, err := strconv.ParseUint(a.Fence, 10, 64)
	if err != nil || fence == 0 {
		return 0, fmt.Errorf("jsonlock: an answer with fence %.40q: it must be a number above 0", a.Fence)
	}
	return fence, nil
}
