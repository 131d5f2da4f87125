package jsonlock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"padme/pubsub"
)

// Bounds of a request, in bytes.
const (
	MaxRequest = 2048
	MaxName    = 64 // of an id and a session
	MaxSent    = 32
)

// Bounds of times that a client may ask for.
const (
	MinLease = 200 * time.Millisecond
	MaxLease = 10 * time.Minute
	MaxWait  = 24 * time.Hour // also of Within and Hold
)

// Bounds of one client in one lock topic.
const (
	MaxLive = 256  // requests that wait or hold
	Rate    = 1000 // messages a second, and twice as many at once
)

// What a request leaves out.
const (
	DefaultResource = "default"
	DefaultPriority = 100
	DefaultLease    = 10 * time.Second
)

// Any names whichever declared resource is free first.
const Any = "*"

// Forever as a Request's Wait: as long as the lease is renewed.
const Forever time.Duration = -1

// Op is what a client asks for.
type Op string

// Operations.
const (
	Acquire Op = "acquire" // take Resource, or say how that request stands
	Renew   Op = "renew"   // the client lives: the lease begins again
	Raise   Op = "raise"   // a waiting request becomes more important
	Release Op = "release" // end one request, or all of the session
	Query   Op = "query"   // how a request stands
	Gone    Op = "gone"    // a last will: the session has ended
	Show    Op = "show"    // what holds for the lock topic as a whole
	Remove  Op = "remove"  // let go of the lock topic, in the name of the gateway itself
)

// Request is what a client asks for.
type Request struct {
	Op       Op
	ID       string      // names the request for all of its life; empty for all of the session
	Session  string      // one run of the client; may be empty
	Sent     json.Number // the client's clock when it sent this; not interpreted, may be empty
	Resource string
	Priority int64         // smaller is more important
	Wait     time.Duration // how long to wait at most, sent in milliseconds; 0: not at all; or Forever
	Lease    time.Duration // sent in milliseconds
	Renews   bool          // it renews what it holds and stops when that is not valid any more: then the hold ends, before the lease
	Within   time.Duration // be granted within this time of its arrival or be denied, sent in milliseconds; 0: no deadline
	Hold     time.Duration // how long the client says that it will hold, sent in milliseconds; 0: it does not say
}

// New returns a request with the defaults of what it leaves out.
func New(op Op) Request {
	return Request{Op: op, Resource: DefaultResource, Priority: DefaultPriority, Wait: Forever, Lease: DefaultLease}
}

// requestJSON is a request as it comes. Pointers tell what was left out.
type requestJSON struct {
	Op       Op          `json:"op"`
	ID       string      `json:"id,omitempty"`
	Session  string      `json:"session,omitempty"`
	Sent     json.Number `json:"sent,omitempty"`
	Resource *string     `json:"resource,omitempty"`
	Priority *int64      `json:"priority,omitempty"`
	WaitMS   *int64      `json:"wait_ms,omitempty"`
	LeaseMS  *int64      `json:"lease_ms,omitempty"`
	Renews   bool        `json:"renews,omitempty"`
	WithinMS *int64      `json:"within_ms,omitempty"`
	HoldMS   *int64      `json:"hold_ms,omitempty"`
}

// Refusal says, in the words of an answer, why a payload is not a request.
type Refusal struct {
	Reason Reason
	Detail string
}

func (e *Refusal) Error() string { return fmt.Sprintf("jsonlock: %s: %s", e.Reason, e.Detail) }

// Refuse makes a *Refusal.
func Refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// DecodeRequest reads a payload; an error is a *Refusal. With an error the request
// holds the id and the session as far as they could be read, for the answer. Fields
// that are not known are ignored: later versions may have more.
func DecodeRequest(payload []byte) (Request, error) {
	if len(payload) > MaxRequest {
		return Request{}, Refuse(TooLarge, "%d bytes, the most is %d", len(payload), MaxRequest)
	}
	var j requestJSON
	if !utf8.Valid(payload) { // JSON would read it as something that was not sent
		return Request{}, Refuse(Malformed, "not UTF-8")
	}
	err := json.Unmarshal(payload, &j)
	r := New(j.Op)
	if nameOK(j.ID) && nameOK(j.Session) && len(j.Sent) <= MaxSent {
		r.ID, r.Session, r.Sent = j.ID, j.Session, j.Sent
	}
	if err != nil {
		return r, notARequest(err)
	}
	return r, r.fill(&j)
}

// Encode writes a request as JSON, without what has its default and what its Op does
// not need. An error is the *Refusal that DecodeRequest would answer it with.
func (r *Request) Encode() ([]byte, error) {
	j := requestJSON{Op: r.Op, ID: r.ID, Session: r.Session, Sent: r.Sent}
	if r.Op == Acquire {
		if r.Resource != DefaultResource {
			j.Resource = &r.Resource
		}
		if r.Wait >= 0 {
			j.WaitMS = milliseconds(r.Wait)
		}
		if r.Lease != DefaultLease {
			ms := r.Lease.Milliseconds()
			j.LeaseMS = &ms
		}
		j.Renews = r.Renews
		if r.Within != 0 {
			j.WithinMS = milliseconds(r.Within)
		}
		if r.Hold != 0 {
			j.HoldMS = milliseconds(r.Hold)
		}
	}
	if r.Op == Raise || r.Op == Acquire && r.Priority != DefaultPriority {
		j.Priority = &r.Priority
	}
	var check Request
	if err := check.fill(&j); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(&j)
	if err != nil {
		return nil, Refuse(Malformed, "sent %.40q is not a number", string(r.Sent))
	}
	if len(payload) > MaxRequest {
		return nil, Refuse(TooLarge, "%d bytes, the most is %d", len(payload), MaxRequest)
	}
	return payload, nil
}

// milliseconds rounds up: a short time is not none.
func milliseconds(d time.Duration) *int64 {
	ms := (d + time.Millisecond - 1).Milliseconds()
	return &ms
}

// fill takes over what is given and checks it.
func (r *Request) fill(j *requestJSON) error {
	switch j.Op {
	case Acquire, Renew, Raise, Query:
		if j.ID == "" {
			return Refuse(BadID, "op %s needs an id", j.Op)
		}
	case Release, Gone, Show, Remove:
	default:
		return Refuse(BadOp, "op %.20q: give acquire, renew, raise, release, query, show or gone", string(j.Op))
	}
	switch {
	case !nameOK(j.ID):
		return Refuse(BadID, "an id has at most %d bytes", MaxName)
	case !nameOK(j.Session):
		return Refuse(BadID, "a session has at most %d bytes", MaxName)
	case len(j.Sent) > MaxSent:
		return Refuse(Malformed, "sent has at most %d digits", MaxSent)
	case j.Op == Raise && j.Priority == nil:
		return Refuse(BadPriority, "op raise needs a priority")
	}
	r.Renews = j.Renews
	if j.Priority != nil {
		r.Priority = *j.Priority
	}
	if j.Resource != nil {
		r.Resource = *j.Resource
		if err := CheckResource(r.Resource); err != nil {
			return err
		}
	}
	return r.fillTimes(j)
}

func (r *Request) fillTimes(j *requestJSON) error {
	if j.WaitMS != nil {
		if *j.WaitMS < 0 || *j.WaitMS > MaxWait.Milliseconds() {
			return Refuse(BadWait, "wait_ms %d: give 0 to %d", *j.WaitMS, MaxWait.Milliseconds())
		}
		r.Wait = time.Duration(*j.WaitMS) * time.Millisecond
	}
	if j.LeaseMS != nil {
		if *j.LeaseMS < MinLease.Milliseconds() || *j.LeaseMS > MaxLease.Milliseconds() {
			return Refuse(BadLease, "lease_ms %d: give %d to %d", *j.LeaseMS, MinLease.Milliseconds(), MaxLease.Milliseconds())
		}
		r.Lease = time.Duration(*j.LeaseMS) * time.Millisecond
	}
	return r.fillDeadline(j)
}

func (r *Request) fillDeadline(j *requestJSON) error {
	for _, t := range []struct {
		name string
		ms   *int64
		to   *time.Duration
	}{{"within_ms", j.WithinMS, &r.Within}, {"hold_ms", j.HoldMS, &r.Hold}} {
		if t.ms == nil {
			continue
		}
		if *t.ms < 1 || *t.ms > MaxWait.Milliseconds() {
			return Refuse(BadWait, "%s %d: give 1 to %d", t.name, *t.ms, MaxWait.Milliseconds())
		}
		*t.to = time.Duration(*t.ms) * time.Millisecond
	}
	return nil
}

// reserved are levels of the topic contract, which no resource may be named after.
var reserved = []string{"join", "client", "member"}

// CheckResource reports, as a *Refusal, why a name cannot be that of a resource.
func CheckResource(name string) error {
	if name == Any {
		return nil
	}
	if pubsub.CheckName(name) != nil {
		return Refuse(BadResource, "resource %.40q cannot be a level of a topic", name)
	}
	if slices.Contains(reserved, name) {
		return Refuse(BadResource, "resource %q is reserved, as are %s: take another name", name, strings.Join(reserved, ", "))
	}
	return nil
}

func nameOK(s string) bool { return len(s) <= MaxName }
