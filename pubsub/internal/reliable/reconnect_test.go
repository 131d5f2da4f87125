package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// breakConnection writes two samples of an instance, of which nothing arrives: the second
// replaces the first.
func (n *lossyPair) breakConnection(t *testing.T) {
	t.Helper()
	publish := n.s.out.Publish
	n.s.out.Publish = func(string, string, []byte, Sharing) error { return failure.ErrOffline }
	for range 2 {
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.s.out.Publish = publish
	time.Sleep(minBeat) // until the connection is back
	n.wire = nil
	n.epoch++
	n.r.Updated(Peer{GUID: theWriter, Epoch: n.epoch})
}

// allAfter lets everything arrive after a millisecond, until the reader has all.
func (n *lossyPair) allAfter(t *testing.T) time.Duration {
	t.Helper()
	began, next := time.Now(), time.Now()
	for n.r.writers["w/w1"].next <= n.s.seq {
		if time.Since(began) > time.Hour {
			t.Fatal("it does not arrive")
		}
		time.Sleep(time.Millisecond)
		for i := len(n.wire); i > 0; i-- {
			n.step(0, "deliver")
		}
		if !next.IsZero() && !time.Now().Before(next) {
			next = n.s.Tick(time.Now())
		}
	}
	return time.Since(began)
}

// A reader that was away is not sent the samples that were replaced meanwhile, and believes
// that only after a silence. Until then it is told again, however often that has been so.
func TestWhatWasReplacedHoldsUpNoLongerEachTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1})
		n.match()
		n.heal()
		n.r.quiet = minQuiet
		n.posted = nil
		for range 10 {
			n.breakConnection(t)
			n.s.Last()
			if took := n.allAfter(t); took > minQuiet+minBeat {
				t.Errorf("it took %v", took)
			}
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			if n.s.Lagging(n.s.seq) != nil {
				t.Error("the writer waits although the reader has all")
			}
			time.Sleep(2500 * time.Millisecond)
		}
		if again := len(n.messages(wire.OpSample)); again > 10 {
			t.Errorf("%d samples were sent again for 10 that were missing", again)
		}
	})
}

// After a reconnection readers are asked at once what they lack, and soon again.
func TestTheLastSampleComesSoonAfterAReconnection(t *testing.T) {
	for name, lost := range map[string]bool{"asked": false, "asked in vain": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := newLossyPair(Policies{Reliable: true, Depth: 1})
				n.match()
				n.heal()
				n.r.quiet = minQuiet
				for range 10 {
					n.breakConnection(t)
					n.wire = nil // the reader's hello comes too late
					n.s.Stale()
					if lost {
						n.wire = nil
					}
					if took := n.allAfter(t); took > 5*minBeat {
						t.Errorf("it took %v", took)
					}
					for len(n.wire) > 0 {
						n.step(0, "deliver")
					}
					time.Sleep(2500 * time.Millisecond)
				}
			})
		})
	}
}

// A reader that has just greeted a writer asks for what a sample has passed.
func TestWhoHasGreetedAsksForWhatASampleHasPassed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1})
		n.match()
		n.heal()
		n.breakConnection(t)
		n.wire = nil // its hello is lost
		if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
			t.Fatal(err)
		}
		if took := n.allAfter(t); took > minAsk/2 {
			t.Errorf("it took %v", took)
		}
	})
}

// What an answer says last, that a sample is not held any more, was not sent: it does not make
// the way slower if the reader does not believe it.
func TestAGapAfterWhatWasSentIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1})
		n.match()
		n.heal()
		n.r.quiet = minQuiet
		write := func(key string) {
			if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			n.breakConnection(t)
			write("a")
			write("b")
			n.wire = nil
			n.s.Last()
			n.step(0, "deliver") // the reader asks
			ask := n.wire
			n.wire = nil
			write("b")
			late := n.wire
			n.wire = ask
			n.step(0, "deliver") // the answer ends with the b before
			n.wire = append(n.wire, func() { time.Sleep(minBeat / 20) })
			n.wire = append(n.wire, late...)
			if took := n.allAfter(t); took > minQuiet+2*minBeat {
				t.Errorf("it took %v", took)
			}
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			time.Sleep(2500 * time.Millisecond)
		}
	})
}

// A reader that hears others all the time believes only after seconds what is not held any more:
// it is asked as rarely as any other that does not answer.
func TestWhoDoesNotBelieveIsAskedMoreRarely(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, Depth: 1})
		n.match()
		n.heal()
		n.r.quiet = minQuiet
		n.breakConnection(t)
		n.wire, n.posted = nil, nil
		n.s.Stale()
		began := time.Now()
		for next := began; n.s.Lagging(n.s.seq) != nil; time.Sleep(time.Millisecond) {
			n.r.heard = time.Now()
			for i := len(n.wire); i > 0; i-- {
				n.step(0, "deliver")
			}
			if !next.IsZero() && !time.Now().Before(next) {
				next = n.s.Tick(time.Now())
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it never believes")
			}
		}
		if beats := len(n.messages(wire.OpHeartbeat)); beats > 15 {
			t.Errorf("it is asked %d times in %v", beats, time.Since(began))
		}
	})
}
