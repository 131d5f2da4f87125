package qosmutex

import (
	"testing"

	"padme/tests/poll"
)

// The state says whom the root chose among whom, and what puts those who wait behind each
// other.
func TestTheStateExplainsTheHolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		models, how       string
		first, second     int // of the members, who is served after the holder
		firstBy, secondBy string
	}{
		{"level-forward-forward-forward", "turn", 2, 1, "", "priority"},
		{"level-forward-forward-direct", "direct", 2, 1, "", "priority"},
	} {
		t.Run(c.models, func(t *testing.T) {
			t.Parallel()
			url := startRemembering(t)
			_, members := group(t, url, "t", 3, WithTiming(LAN()), WithModels(models(t, c.models)))
			observer := join(t, url, "observer")
			held := lock(t, members[0], "crane")
			waits := map[int]*Request{}
			for _, w := range []struct {
				member   int
				priority int64
			}{{1, 50}, {2, 5}} {
				r, err := members[w.member].Ask("crane", WithPriority(w.priority))
				if err != nil {
					t.Fatal(err)
				}
				waits[w.member] = r
				poll.Until(t, "the request to be known", func() bool { return collectStates(t, observer, "t", 2)["crane"].Waiting == len(waits) })
			}
			poll.Until(t, "the queue to be told", func() bool {
				q := collectStates(t, observer, "t", 2)["crane"].Queue
				return len(q) == 2 && q[0].Participant == members[c.first].self.ID && q[0].By == c.firstBy &&
					q[1].Participant == members[c.second].self.ID && q[1].By == c.secondBy && q[0].Clock != 0
			})
			unlock(t, held)
			h, err := waits[c.first].Wait(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			var s State
			poll.Until(t, "the decision to be told", func() bool {
				s = collectStates(t, observer, "t", 2)["crane"]
				return s.Holder == members[c.first].self.ID && s.Decision != nil && s.Decision.Covers(h.Fence())
			})
			d := s.Decision
			if s.How != c.how || d.Granted.Participant != s.Holder || d.Waiting != 2 || d.Place != 1 || d.Models != c.models ||
				len(d.Queue) != 2 || d.Queue[1].Participant != members[c.second].self.ID || d.Queue[1].By != c.secondBy || d.Covers(held.Fence()) {
				t.Errorf("held %s; the decision: %+v", s.How, d)
			}
			unlock(t, h)
			h, err = waits[c.second].Wait(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			unlock(t, h)
		})
	}
}

// sameWaiter reports whether the same one waits for the same, wherever it stands.
func sameWaiter(a, b Waiter) bool {
	return a.Participant == b.Participant && a.Via == b.Via && a.Priority == b.Priority && a.Any == b.Any
}
