package broker

import (
	"testing"
	"time"
)

// A user may take its rate and a fiftieth of a second ahead, and owes no more than that.
func TestAShareIsBounded(t *testing.T) {
	var b bucket
	now := time.Now()
	took := 0
	for ; took < 1000 && !b.take(1, 1000, now); took++ {
	}
	if took != 20 {
		t.Errorf("%d at once of 1000 a second", took)
	}
	b.take(1e6, 1000, now)
	if now = now.Add(19 * time.Millisecond); !b.take(0, 1000, now) {
		t.Error("what was owed is forgotten")
	}
	if now = now.Add(2 * time.Millisecond); b.take(0, 1000, now) {
		t.Error("somebody waits for longer than a fiftieth of a second")
	}
}

// A user is held back only while another one sends.
func TestWhoIsAloneIsNotHeldBack(t *testing.T) {
	var s shares
	now := time.Now()
	alice, again, bob := s.enter("alice"), s.enter("alice"), s.enter("bob")
	if alice != again {
		t.Error("two connections of a user have two shares")
	}
	alice.active.Store(now.UnixNano())
	if s.contended(alice, now) || !s.contended(bob, now) {
		t.Error("alice alone sends")
	}
	if s.contended(bob, now.Add(shareRecent)) {
		t.Error("alice counts for ever")
	}
	s.leave(alice)
	if !s.contended(bob, now) {
		t.Error("alice has a connection left")
	}
	s.leave(again)
	if s.contended(bob, now) || len(s.byUser) != 1 {
		t.Error("alice counts without a connection")
	}
}
