package jsonlock

import (
	"strings"
	"testing"
	"time"
)

const granted = `{"id":"7","session":"3f9c","op":"renew","outcome":"granted","resource":"hook","priority":50,"fence":"1793491204360607","sent":187223,"valid_ms":2703,"gateway":"host-4711"}`

func TestAnswerIsReadAsDocumented(t *testing.T) {
	a, err := DecodeAnswer([]byte(granted))
	if err != nil {
		t.Fatal(err)
	}
	if fence, err := a.FenceNumber(); err != nil || fence != 1793491204360607 || a.Valid() != 2703*time.Millisecond || a.Final() {
		t.Errorf("fence %d, %v, valid for %v: %+v", fence, err, a.Valid(), a)
	}
	// A later version may have more fields, outcomes and reasons: the last two end the request.
	a, err = DecodeAnswer([]byte(`{"id":"7","outcome":"preempted","reason":"quota","hint":{"more":[1]}}`))
	if err != nil || !a.Final() {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestBadAnswersAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	for _, payload := range []string{
		``, `hello`, `[]`, `{}`, `{"id":7,"outcome":"waiting"}`, "{\"id\":\"\xff\",\"outcome\":\"waiting\"}",
		`{"id":"7","outcome":"waiting"} {}`,
		`{"id":"` + long + `","outcome":"waiting"}`,
		`{"id":"7","session":"` + long + `","outcome":"waiting"}`,
		`{"id":"7","outcome":"waiting","sent":` + strings.Repeat("1", MaxSent+1) + `}`,
		`{"id":"7","outcome":"waiting","position":-1}`,
		`{"id":"7","outcome":"waiting","valid_ms":-1}`,
		`{"id":"7","outcome":"waiting","valid_ms":600001}`,
		`{"id":"7","outcome":"granted","resource":"a","fence":"5"}`,
		`{"id":"7","outcome":"granted","resource":"a","fence":"0","valid_ms":1}`,
		`{"id":"7","outcome":"granted","resource":"a","fence":"-5","valid_ms":1}`,
		`{"id":"7","outcome":"granted","resource":"a","fence":"18446744073709551616","valid_ms":1}`,
		`{"id":"7","outcome":"granted","resource":"a","valid_ms":1}`,
		`{"id":"7","outcome":"granted","resource":"*","fence":"5","valid_ms":1}`,
		`{"id":"7","outcome":"granted","fence":"5","valid_ms":1}`,
		`{"id":"7","outcome":"waiting","detail":"` + strings.Repeat("x", MaxAnswer) + `"}`,
	} {
		if a, err := DecodeAnswer([]byte(payload)); err == nil {
			t.Errorf("%.80q was taken for %+v", payload, a)
		}
	}
}
