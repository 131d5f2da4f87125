package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// A sample that the content filter looks at has come, although it was not judged yet.
func TestWhatTheFilterLooksAtIsNotGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1}, Policies{Reliable: true, KeepAll: true})
		n.r.out.Filter = func([]byte) (bool, error) { time.Sleep(300 * time.Millisecond); return true, nil }
		n.match()
		n.heal()
		n.r.quiet = minQuiet
		for range 4 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		samples := n.wire
		n.wire = nil
		done := make(chan bool)
		go func() {
			for _, deliver := range samples {
				deliver()
			}
			close(done)
		}()
		time.Sleep(210 * time.Millisecond)
		for range 3 { // the first has come
			time.Sleep(minQuiet / 2)
			n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: 4, B: 4})
		}
		n.r.Handle(theWriter, &wire.Repair{Op: wire.OpGap, Ranges: []wire.Range{{First: 2, Last: 3}}})
		<-done
		n.expectTaken(t, 0, 1, 2, 3, 4)
	})
}

// All samples come in one line. While it brings those of others, a gap says nothing.
func TestWhatWaitsBehindOthersIsNotGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1}, Policies{Reliable: true, KeepAll: true})
		n.match()
		n.heal()
		n.r.quiet = minQuiet
		other := wire.GUID{Participant: "w", Incarnation: 1, Endpoint: "w2"}
		n.r.Matched(Peer{GUID: other, Reliable: true})
		n.r.heartbeat(other, &wire.Repair{Op: wire.OpHeartbeat, A: 1, B: 0})
		for range 4 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		samples := n.wire[len(n.wire)-4:]
		n.wire = nil
		time.Sleep(4 * time.Second) // suspended
		e := wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 1, Schema: 7}
		n.r.Arrived("k", "w/w2", wire.Append(nil, &e)) // the connection brings the backlog: first of the other writer
		n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpHeartbeat, A: 4, B: 4})
		for len(n.wire) > 0 {
			n.step(0, "deliver")
		}
		e.Seq++
		n.r.Arrived("k", "w/w2", wire.Append(nil, &e))
		for _, deliver := range samples {
			deliver()
		}
		var got []uint64
		for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
			if h.Writer.GUID == theWriter {
				got = append(got, h.Seq)
			}
		}
		if lost := told[SampleLost](n.r.events); len(lost) > 0 {
			t.Errorf("got %v, told %v", got, lost)
		}
	})
}

// A reader that has just come has heard nothing, which is no silence.
func TestWhatAReaderThatHasJustComeIsSentIsNotGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1}, Policies{Reliable: true, KeepAll: true})
		n.r.quiet = minQuiet
		n.match()
		n.heal()
		time.Sleep(time.Millisecond)
		for range 4 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		samples := n.wire
		n.wire = nil
		n.s.Last()    // Flush, or Close: asks at once
		for range 3 { // heartbeat, request, answer
			for on := n.wire; len(on) > 0; on = on[1:] {
				n.step(0, "deliver")
			}
			time.Sleep(time.Millisecond)
		}
		for _, deliver := range samples {
			deliver()
		}
		n.expectTaken(t, 0, 1, 2, 3, 4)
	})
}

// Of a writer that was closed and held nothing no history comes.
func TestAClosedWriterWithoutHistoryIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Historic: true, KeepAll: true})
		n.r.quiet = minQuiet
		n.r.Matched(Peer{GUID: theWriter, Reliable: true, Historic: true})
		n.r.heartbeat(theWriter, &wire.Repair{Op: wire.OpEnd, A: 11, B: 10})
		n.r.Unmatched(theWriter, false)
		if there, _ := n.r.History(); !there {
			t.Error("waits for a history that there is not")
		}
	})
}

// A sample that found no room for its instance, and could not be held back, comes when there is
// room.
func TestWhatWasNotHeldBackIsAskedForWhenThereIsRoom(t *testing.T) {
	for _, keepAll := range []bool{true, false} {
		t.Run(map[bool]string{true: "keep all", false: "keep last"}[keepAll], func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := newLossyPair(Policies{Reliable: true, KeepAll: keepAll, Depth: 1}, Policies{Reliable: true, KeepAll: true, MaxInstances: 1, MaxSamples: 100})
				n.match()
				n.heal()
				other := wire.GUID{Participant: "w", Incarnation: 1, Endpoint: "w2"}
				n.r.Matched(Peer{GUID: other, Reliable: true})
				n.wire = nil
				n.r.heartbeat(other, &wire.Repair{Op: wire.OpHeartbeat, A: 1, B: 0})
				e := wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 1, Schema: 7}
				n.r.Arrived("a", "w/w2", wire.Append(nil, &e))
				n.wire = nil
				write := func(key string, size int) {
					if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7, Body: make([]byte, size)}); err != nil {
						t.Fatal(err)
					}
				}
				write("b", 17<<20) // there is no room for its instance, nor to hold it back
				if !keepAll {
					write("b", 1)
				}
				n.heal()
				e = wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 2, Schema: 7}
				e.Options.Status = wire.StatusDispose
				n.r.Arrived("a", "w/w2", wire.Append(nil, &e)) // there is
				for range 20 {
					n.heal()
					for n.r.TakeNext() != nil {
					}
					time.Sleep(time.Second)
				}
				if w := n.r.writers["w/w1"]; w.next <= n.s.seq {
					t.Errorf("keep all %v: next %d of %d, stuck %d, early %d", keepAll, w.next, n.s.seq, w.stuck, len(w.early))
				}
			})
		})
	}
}
