package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// A wall clock that is set back does not make a writer's samples late.
func TestSourceTimesOfAWriterGrow(t *testing.T) {
	n := newLossyPair(Policies{BySourceTime: true, KeepAll: true})
	n.match()
	n.heal()
	now := uint64(time.Now().UnixNano())
	for _, nanos := range []uint64{now, now - 1000, now - 1000, now} {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7, Nanos: nanos}); err != nil {
			t.Fatal(err)
		}
	}
	n.heal()
	for want := range uint64(4) {
		if h := n.r.TakeNext(); h == nil || h.Seq != want+1 || h.Nanos != now+want {
			t.Fatalf("sample %d: %+v", want+1, h)
		}
	}
}
