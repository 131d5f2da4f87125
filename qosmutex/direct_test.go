package qosmutex

import (
	"testing"

	"padme/qosmutex/protocol"
	"padme/tests/poll"
)

// sentOf is how many messages of a kind a participant has sent.
func sentOf(topic *Topic, kind protocol.Kind) uint64 { return topic.Status().Counters.Sent[kind] }

// A member that unlocks sends the token to the member that waits, which enters before the
// root has heard of it; watchers see who holds.
func TestUnlockLetsTheNextMemberIn(t *testing.T) {
	t.Parallel()
	url := startRemembering(t)
	root, members := group(t, url, "t", 3, WithTiming(LAN()), WithModels(models(t, "level-forward-forward-direct")))
	a, b, c := members[0], members[1], members[2]
	observer := join(t, url, "observer")
	var g guarded
	h := lock(t, a, "crane")
	g.visit(t, h)
	var waits []*Request
	for i, topic := range []*Topic{b, c} {
		w, err := topic.Ask("crane")
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, w)
		poll.Until(t, "the root has told who comes next", func() bool { return sentOf(root, protocol.KindSchedule) == uint64(i+1) })
	}
	replies := sentOf(root, protocol.KindReply)
	for i, topic := range []*Topic{b, c} {
		unlock(t, h)
		var err error
		if h, err = waits[i].Wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
		g.visit(t, h)
		poll.Until(t, "the state names the holder", func() bool {
			s := collectStates(t, observer, "t", 2)["crane"]
			return s.Holder == topic.self.ID && parseFence(s.Fence) == h.Fence()
		})
	}
	if a, b := sentOf(a, protocol.KindReply), sentOf(b, protocol.KindReply); a != 1 || b != 1 {
		t.Errorf("%d and %d tokens sent straight to the next one, want one by each", a, b)
	}
	unlock(t, h)
	poll.Until(t, "free at the end", func() bool {
		s := collectStates(t, observer, "t", 2)["crane"]
		return s.Status == StatusFree && parseFence(s.Fence) == g.fence.Load()
	})
	t.Logf("the root has sent %d Replies in between", sentOf(root, protocol.KindReply)-replies)
	contend(t, append(members, root), 20, &guarded{})
}
