package register_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"padme/qosmutex/register"
)

func TestErrorsSayWhatIsKnownOfAWrite(t *testing.T) {
	v := register.Version{Counter: 2, Nonce: 0xab}
	for _, c := range []struct {
		err                            error
		conflict, unavailable, unknown bool
		text                           string
	}{
		{
			&register.Conflict{Key: "crane", Current: register.Entry{Version: v}}, true, false, false,
			`register: "crane" is at version 2-00000000000000ab, not none`,
		},
		{
			&register.Conflict{Key: "crane", Old: v, Unknown: true}, true, false, true,
			`register: "crane" is at version none, not 2-00000000000000ab; the write may have been made and replaced since`,
		},
		{
			&register.Unavailable{Missing: []string{"b", "c"}, Cause: context.DeadlineExceeded}, false, true, false,
			"register: unavailable: no answer from b, c: context deadline exceeded",
		},
		{
			fmt.Errorf("renewing: %w", &register.Unavailable{Unknown: true}), false, true, true,
			"renewing: register: unavailable; the write may have been made",
		},
	} {
		if c.err.Error() != c.text {
			t.Errorf("got  %v\nwant %s", c.err, c.text)
		}
		for target, want := range map[error]bool{register.ErrConflict: c.conflict, register.ErrUnavailable: c.unavailable, register.ErrUnknown: c.unknown, register.ErrInvalid: false} {
			if errors.Is(c.err, target) != want {
				t.Errorf("%v is %v: %v", c.err, target, !want)
			}
		}
	}
}

func TestWhatAWriteReplaces(t *testing.T) {
	here, there := register.NewDomain(), register.NewDomain()
	at := func(d register.Domain, counter, nonce uint64) register.Version {
		return register.Version{Domain: d, Counter: counter, Nonce: nonce}
	}
	for _, c := range []struct {
		old, current   register.Version
		replaces, made bool
	}{
		{at(register.Domain{}, 0, 0), at(here, 0, 0), true, false},
		{at(here, 0, 0), at(here, 0, 0), true, false},
		{at(there, 0, 0), at(here, 0, 0), false, false},
		{at(here, 1, 5), at(here, 1, 5), true, false},
		{at(register.Domain{}, 1, 5), at(here, 1, 5), false, false},
		{at(here, 1, 5), at(here, 1, 6), false, false},
		{at(here, 1, 5), at(here, 2, 9), false, true},
		{at(there, 1, 5), at(here, 2, 9), false, false},
		{at(register.Domain{}, 0, 0), at(here, 1, 9), false, true},
		{at(here, 1, 5), at(here, 3, 9), false, false},
	} {
		w := register.Write{Key: "crane", Old: c.old, Nonce: 9}
		if w.Replaces(c.current) != c.replaces || w.Made(c.current) != c.made {
			t.Errorf("%v of %v: replaces %v, made %v", c.old, c.current, w.Replaces(c.current), w.Made(c.current))
		}
	}
	if w := (register.Write{Key: "crane"}); w.Made(at(here, 1, 0)) {
		t.Error("a write without a nonce recognizes itself")
	}
}
