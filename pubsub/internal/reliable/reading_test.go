package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/wire"
)

// The lease of a writer ends when it ends, whenever that is looked at.
func TestALeaseThatEndsShowsAtOnce(t *testing.T) {
	n := newLossyPair(Policies{KeepAll: true})
	n.r.Matched(Peer{GUID: theWriter, Lease: 50 * time.Millisecond})
	if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
		t.Fatal(err)
	}
	n.heal()
	x := cache.Selection{Instances: cache.Bit(cache.NoWriters)}
	if there, _ := n.r.Waits(&x); there {
		t.Error("the writer is taken for dead")
	}
	time.Sleep(60 * time.Millisecond)
	if there, _ := n.r.Waits(&x); !there { // nobody has called tick
		t.Error("the writer is taken for alive")
	}
}
