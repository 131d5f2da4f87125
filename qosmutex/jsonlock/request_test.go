package jsonlock

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRequestIsSentWithoutItsDefaults(t *testing.T) {
	for want, change := range map[string]func(r *Request){
		`{"op":"acquire","id":"7"}`:                              func(*Request) {},
		`{"op":"acquire","id":"7","priority":0}`:                 func(r *Request) { r.Priority = 0 },
		`{"op":"acquire","id":"7","wait_ms":0}`:                  func(r *Request) { r.Wait = 0 },
		`{"op":"acquire","id":"7","wait_ms":1}`:                  func(r *Request) { r.Wait = time.Microsecond },
		`{"op":"acquire","id":"7","resource":"*"}`:               func(r *Request) { r.Resource = Any },
		`{"op":"acquire","id":"7","lease_ms":5000}`:              func(r *Request) { r.Lease = 5 * time.Second },
		`{"op":"acquire","id":"7","within_ms":1500,"hold_ms":1}`: func(r *Request) { r.Within, r.Hold = 1500*time.Millisecond, time.Microsecond },
		`{"op":"acquire","id":"7","renews":true}`:                func(r *Request) { r.Renews = true },
		`{"op":"show","id":"7"}`:                                 func(r *Request) { r.Op = Show },
		`{"op":"renew","id":"7","sent":184223}`:                  func(r *Request) { r.Op, r.Sent, r.Resource, r.Renews = Renew, "184223", "hook", true },
		`{"op":"raise","id":"7","priority":100}`:                 func(r *Request) { r.Op = Raise },
		`{"op":"gone","session":"3f9c"}`:                         func(r *Request) { r.Op, r.ID, r.Session = Gone, "", "3f9c" },
		`{"op":"release","id":"7","session":"\u003c"}`:           func(r *Request) { r.Op, r.Session = Release, "<" },
	} {
		r := New(Acquire)
		r.ID = "7"
		change(&r)
		got, err := r.Encode()
		if err != nil || string(got) != want {
			t.Errorf("%+v is %s, %v; want %s", r, got, err, want)
		}
	}
}

// Words of the topic contract, which a server refuses at once with these.
func TestReservedNamesAreNoResources(t *testing.T) {
	for _, name := range []string{"join", "client", "member"} {
		var why *Refusal
		if err := CheckResource(name); !errors.As(err, &why) || why.Reason != BadResource || !strings.Contains(why.Detail, "reserved") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckResource(Any); err != nil {
		t.Error(err)
	}
}

func TestBadRequestIsNotSent(t *testing.T) {
	for want, change := range map[Reason]func(r *Request){
		BadID:       func(r *Request) { r.ID = strings.Repeat("x", MaxName+1) },
		BadOp:       func(r *Request) { r.Op = "sing" },
		BadResource: func(r *Request) { r.Resource = "a\x00" },
		BadWait:     func(r *Request) { r.Wait = 25 * time.Hour },
		BadLease:    func(r *Request) { r.Lease = time.Hour },
		Malformed:   func(r *Request) { r.Sent = json.Number("noon") },
	} {
		r := New(Acquire)
		r.ID = "7"
		change(&r)
		payload, err := r.Encode()
		var why *Refusal
		if !errors.As(err, &why) || why.Reason != want || why.Detail == "" {
			t.Errorf("%s: %s, %v", want, payload, err)
		}
	}
}
