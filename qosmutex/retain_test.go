package qosmutex

import (
	"testing"

	"padme/qosmutex/protocol"
	"padme/tests/poll"
)

// tokenMessages is how many messages about requests and tokens a participant has sent.
func tokenMessages(topic *Topic) uint64 {
	sent := topic.Status().Counters.Sent
	return sent[protocol.KindRequest] + sent[protocol.KindReply] + sent[protocol.KindRelease] + sent[protocol.KindSync] + sent[protocol.KindReport]
}

// A member that locks again and again sends nothing from its second Unlock on. Another one
// gets the lock at once all the same.
func TestLockAgainTakesNoMessage(t *testing.T) {
	t.Parallel()
	url := startRemembering(t)
	root, members := group(t, url, "t", 2, WithTiming(LAN()), WithModels(models(t, "level-forward-forward-retain")))
	a, b := members[0], members[1]
	observer := join(t, url, "observer")
	var g guarded
	enter := func(topic *Topic) {
		t.Helper()
		h := lock(t, topic, "crane")
		g.visit(t, h)
		unlock(t, h)
	}
	state := func() State { return collectStates(t, observer, "t", 2)["crane"] }

	enter(a)
	enter(a)
	before := tokenMessages(a)
	for range 20 {
		enter(a)
	}
	if n := tokenMessages(a) - before; n != 0 {
		t.Errorf("%d messages for entries with a token that is retained", n)
	}
	poll.Until(t, "what is retained is free", func() bool {
		s := state()
		return s.Status == StatusFree && s.Holder == "" && parseFence(s.Fence) == g.fence.Load()
	})

	h := lock(t, a, "crane")
	poll.Until(t, "a holds again", func() bool {
		s := state()
		return s.Status == StatusHeld && s.Holder == "a" && parseFence(s.Fence) == h.Fence()
	})
	unlock(t, h)

	enter(a) // it may have gone home meanwhile
	before = tokenMessages(a)
	enter(b)
	if n := tokenMessages(a) - before; n != 1 {
		t.Errorf("a sent %d messages to give the token up, want its answer alone", n)
	}
	if n := root.Status().Counters.Recalls; n != 1 {
		t.Errorf("%d recalls, want one", n)
	}
	poll.Until(t, "free after b", func() bool {
		s := state()
		return s.Status == StatusFree && parseFence(s.Fence) == g.fence.Load()
	})
}

// Who is inside with a retained token lets others in when it leaves.
func TestRetainedLockIsRecalledFromItsHolder(t *testing.T) {
	t.Parallel()
	url := startRemembering(t)
	_, members := group(t, url, "t", 2, WithTiming(LAN()), WithModels(models(t, "level-forward-forward-retain")))
	observer := join(t, url, "observer")
	var g guarded
	for range 3 {
		h := lock(t, members[0], "crane")
		g.visit(t, h)
		unlock(t, h)
	}
	h := lock(t, members[0], "crane")
	g.visit(t, h)
	waits, err := members[1].Ask("crane")
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a holds and b waits", func() bool {
		s := collectStates(t, observer, "t", 2)["crane"]
		return s.Holder == "a" && s.Waiting == 1
	})
	if _, err := members[1].TryLock(testContext(t), "crane"); err == nil {
		t.Error("a try was granted beside the holder")
	}
	unlock(t, h)
	h, err = waits.Wait(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	g.visit(t, h)
	unlock(t, h)
	contend(t, members, 20, &guarded{})
}
