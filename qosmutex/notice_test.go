package qosmutex

import (
	"testing"
	"time"

	"padme/qosmutex/protocol"
)

// The machine of the root may know of an entry before the event of it is read, which alone
// tells how and when it came about.
func TestAnEventExplainsAnEntryThatIsKnown(t *testing.T) {
	t.Parallel()
	entry := time.Now()
	known := entered{who: "a", client: "c", fence: 7, at: entry.Add(time.Second)}
	told := entered{who: "a", client: "c", fence: 7, at: entry, how: protocol.HowTurn}
	n := notice{}
	if !n.enter(known) || n.enter(known) {
		t.Error("an entry is news once")
	}
	n.says, n.since = claim{status: StatusHeld, fence: 7}, known.at
	if other := (entered{who: "b", fence: 7, at: entry, how: protocol.HowPassing}); n.enter(other) || n.latest != known {
		t.Errorf("after the event of another: %+v", n.latest)
	}
	if !n.enter(told) || n.latest != told || !n.since.Equal(entry) {
		t.Errorf("after its event: %+v since %v", n.latest, n.since)
	}
	if n.enter(told) || n.enter(known) || n.latest != told {
		t.Errorf("the same again: %+v", n.latest)
	}
	n.leave(told)
	if n.enter(told) || !n.over {
		t.Error("an entry that is over began again")
	}
}
