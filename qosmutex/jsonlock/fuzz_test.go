package jsonlock

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// No payload ends the process, and what is accepted is within its bounds and means
// what was sent.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"op":"acquire","id":"1","session":"s","sent":12.5,"resource":"*","priority":-9223372036854775808,"wait_ms":0,"lease_ms":200,"within_ms":1,"hold_ms":86400000}`,
		`{"op":"gone","session":"s"}`, `{"op":"raise","id":"1","priority":1e400}`, `{"OP":"query","id":"\ud800"}`, `[[[[`, `{"sent":"1"}`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, err := DecodeRequest(payload)
		if len(r.ID) > MaxName || len(r.Session) > MaxName || len(r.Sent) > MaxSent {
			t.Fatalf("beyond bounds: %+v", r)
		}
		if _, bad := json.Marshal(Answer{ID: r.ID, Session: r.Session, Op: r.Op, Sent: r.Sent}); bad != nil {
			t.Fatalf("what is echoed cannot be sent: %v: %+v", bad, r)
		}
		if err != nil {
			return
		}
		if len(payload) > MaxRequest || !utf8.Valid(payload) {
			t.Fatalf("accepted %q", payload)
		}
		if r.Lease < MinLease || r.Lease > MaxLease || r.Wait > MaxWait || r.Within < 0 || r.Within > MaxWait || r.Hold < 0 || r.Hold > MaxWait || CheckResource(r.Resource) != nil {
			t.Fatalf("beyond bounds: %+v", r)
		}
		if r.ID == "" && r.Op != Release && r.Op != Gone && r.Op != Show {
			t.Fatalf("no id: %+v", r)
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", r, err)
		}
		back, err := DecodeRequest(again)
		if err != nil {
			t.Fatalf("%s of %+v: %v", again, r, err)
		}
		if r.Op != Acquire { // only that needs them
			back.Resource, back.Wait, back.Lease, back.Within, back.Hold = r.Resource, r.Wait, r.Lease, r.Within, r.Hold
			if r.Op != Raise {
				back.Priority = r.Priority
			}
		}
		if !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v became %+v by %s", r, back, again)
		}
	})
}

// No payload ends the process, and what is taken for an answer can be acted upon.
func FuzzDecodeAnswer(f *testing.F) {
	for _, s := range []string{
		granted, `{"id":"1","outcome":"waiting","position":3,"valid_ms":10000,"sent":5}`, `{"outcome":"denied","reason":"too_fast"}`,
		`{"id":"1","outcome":"granted","fence":"-1","valid_ms":1e3,"resource":"a"}`, `{"outcome":7}`, `[[[[`, "\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		a, err := DecodeAnswer(payload)
		if err != nil {
			return
		}
		if len(a.ID) > MaxName || len(a.Session) > MaxName || len(a.Sent) > MaxSent || a.Position < 0 || a.Valid() < 0 || a.Valid() > MaxLease {
			t.Fatalf("beyond bounds: %+v", a)
		}
		if a.Outcome == "" {
			t.Fatalf("no outcome: %+v", a)
		}
		if a.Outcome != Granted {
			return
		}
		if fence, err := a.FenceNumber(); err != nil || fence == 0 || a.ValidMS == nil || a.Resource == "" || a.Resource == Any {
			t.Fatalf("a grant without what it needs: %+v", a)
		}
	})
}
