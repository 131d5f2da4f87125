package reliable

import (
	"testing"

	"padme/pubsub/internal/wire"
)

// A writer that has yet to be told what a match is called speaks of the announcement that
// it has seen, which may be of a match that is over: the present one begins later.
func TestWordsOnFormerMatchesAreNotHeard(t *testing.T) {
	for former, want := range map[string]int{"": 0, "~2": 0, "former": 0, "~4": 1, "~5": 1} {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true})
		n.r.Matched(Peer{GUID: theWriter, Reliable: true, Ours: 4})
		w := n.r.writers[writerLevels(theWriter)]
		n.r.Handle(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: 41, B: 40, C: 40, Key: former})
		n.r.Handle(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: 61, B: 60, C: 60, Key: w.match})
		n.r.Handle(theWriter, &wire.Repair{Op: wire.OpGap, Ranges: []wire.Range{{First: 41, Last: 60}}})
		if lost := told[SampleLost](n.r.events); len(lost) != want {
			t.Errorf("%q: told of %v", former, lost)
		}
	}
	r := &remoteReader{change: 4}
	if got := r.called(); got != "~4" {
		t.Errorf("a match whose name is not known is called %q", got)
	}
	if r.match = "7"; r.called() != "7" {
		t.Errorf("a match is called %q", r.called())
	}
}
