package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// A reader that cannot keep more tells its writer to wait, until it has what it lacks.
func TestAWriterWaitsForAReaderThatCannotKeepMore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true})
		n.match()
		n.heal()
		written := uint64(0)
		write := func() bool {
			err := n.s.TryWrite("k", &wire.Envelope{Schema: 7, Body: make([]byte, 64<<10)})
			if err == nil {
				written++
			}
			return err == nil
		}
		write()
		n.wire = nil // the first is lost
		post := n.s.out.Post
		n.s.out.Post = func(string, []byte) {} // and not sent again
		for written < 400 && write() {
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			time.Sleep(minAsk)
		}
		n.s.out.Post = post
		n.posted = nil
		time.Sleep(time.Minute)
		if !n.heal() || !write() || !n.heal() {
			t.Error("the writer still waits")
		}
		again := len(n.messages(wire.OpSample))
		var got uint64
		for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
			got++
		}
		if got != written || again != 1 {
			t.Errorf("%d of %d samples arrived, %d were sent again", got, written, again)
		}
	})
}
