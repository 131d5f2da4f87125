package reliable

import (
	"testing"

	"padme/pubsub/internal/wire"
)

// A writer that is closed and has never spoken to the reader has not met it: what it wrote
// last may be on its way while its end is heard, and the broker has it by then.
func TestWhatAWriterRetainedThatNeverSpokeIsAskedForAgain(t *testing.T) {
	for _, met := range []bool{false, true} {
		n := newLossyPair(Policies{Reliable: true, Transient: true, Historic: true})
		n.match()
		n.r.Settle(func(wire.GUID) bool { return true })
		want := 1
		if met {
			n.heal()
			want = 0
		}
		n.r.Unmatched(theWriter, false)
		if n.recalled != want {
			t.Errorf("met %v: asked %d times, want %d", met, n.recalled, want)
		}
	}
}
