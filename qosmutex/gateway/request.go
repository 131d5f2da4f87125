package gateway

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"padme/pubsub"
	"padme/qosmutex"
)

// Bounds of a request, in bytes.
const (
	maxPayload = 2048
	maxName    = 64 // of an id and a session
	maxSent    = 32
)

// Bounds of times that a client may ask for.
const (
	defaultLease = 10 * time.Second
	minLease     = 200 * time.Millisecond
	maxLease     = 10 * time.Minute
	maxWait      = 24 * time.Hour
)

// What a request leaves out.
const (
	defaultResource = "default"
	defaultPriority = 100
)

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
)

// Request is what a client asks for, checked.
type Request struct {
	Op       Op
	ID       string      // names the request for all of its life; empty for all of the session
	Session  string      // one run of the client; may be empty
	Sent     json.Number // the client's clock when it sent this; not interpreted, may be empty
	Resource string
	Priority int64         // smaller is more important
	Wait     time.Duration // how long to wait at most; negative: as long as the lease is renewed
	Lease    time.Duration
}

// requestJSON is a request as it comes. Pointers tell what was left out.
type requestJSON struct {
	Op       Op          `json:"op"`
	ID       string      `json:"id"`
	Session  string      `json:"session"`
	Sent     json.Number `json:"sent"`
	Resource *string     `json:"resource"`
	Priority *int64      `json:"priority"`
	WaitMS   *int64      `json:"wait_ms"`
	LeaseMS  *int64      `json:"lease_ms"`
}

// requestError says why a payload is not a request.
type requestError struct {
	reason Reason
	detail string
}

func (e *requestError) Error() string { return fmt.Sprintf("gateway: %s: %s", e.reason, e.detail) }

func refuse(reason Reason, format string, args ...any) error {
	return &requestError{reason, fmt.Sprintf(format, args...)}
}

// DecodeRequest reads a payload. With an error the request holds the id and the
// session as far as they could be read, for the answer. Fields that are not known
// are ignored: later versions may have more.
func DecodeRequest(payload []byte) (Request, error) {
	if len(payload) > maxPayload {
		return Request{}, refuse(TooLarge, "%d bytes, the most is %d", len(payload), maxPayload)
	}
	var j requestJSON
	if !utf8.Valid(payload) { // JSON would read it as something that was not sent
		return Request{}, refuse(Malformed, "not UTF-8")
	}
	err := json.Unmarshal(payload, &j)
	r := Request{Op: j.Op, Wait: -1, Lease: defaultLease, Resource: defaultResource, Priority: defaultPriority}
	if nameOK(j.ID) && nameOK(j.Session) && len(j.Sent) <= maxSent {
		r.ID, r.Session, r.Sent = j.ID, j.Session, j.Sent
	}
	if err != nil {
		return r, refuse(Malformed, "not a JSON object of the expected fields: %.100s", err.Error())
	}
	return r, r.fill(&j)
}

// fill takes over what is given and checks it.
func (r *Request) fill(j *requestJSON) error {
	switch j.Op {
	case Acquire, Renew, Raise, Query:
		if j.ID == "" {
			return refuse(BadID, "op %s needs an id", j.Op)
		}
	case Release, Gone:
	default:
		return refuse(BadOp, "op %.20q: give acquire, renew, raise, release, query or gone", string(j.Op))
	}
	switch {
	case !nameOK(j.ID):
		return refuse(BadID, "an id has at most %d bytes", maxName)
	case !nameOK(j.Session):
		return refuse(BadID, "a session has at most %d bytes", maxName)
	case len(j.Sent) > maxSent:
		return refuse(Malformed, "sent has at most %d digits", maxSent)
	case j.Op == Raise && j.Priority == nil:
		return refuse(BadPriority, "op raise needs a priority")
	}
	if j.Priority != nil {
		r.Priority = *j.Priority
	}
	if j.Resource != nil {
		r.Resource = *j.Resource
	}
	if err := checkResource(r.Resource); err != nil {
		return err
	}
	return r.fillTimes(j)
}

func (r *Request) fillTimes(j *requestJSON) error {
	if j.WaitMS != nil {
		if *j.WaitMS < 0 || *j.WaitMS > maxWait.Milliseconds() {
			return refuse(BadWait, "wait_ms %d: give 0 to %d", *j.WaitMS, maxWait.Milliseconds())
		}
		r.Wait = time.Duration(*j.WaitMS) * time.Millisecond
	}
	if j.LeaseMS != nil {
		if *j.LeaseMS < minLease.Milliseconds() || *j.LeaseMS > maxLease.Milliseconds() {
			return refuse(BadLease, "lease_ms %d: give %d to %d", *j.LeaseMS, minLease.Milliseconds(), maxLease.Milliseconds())
		}
		r.Lease = time.Duration(*j.LeaseMS) * time.Millisecond
	}
	return nil
}

func checkResource(name string) error {
	if name == qosmutex.Any {
		return nil
	}
	if _, err := pubsub.EncodeLevel(name); err != nil {
		return refuse(BadResource, "resource %.40q cannot be a level of a topic", name)
	}
	return nil
}

func nameOK(s string) bool { return len(s) <= maxName }
