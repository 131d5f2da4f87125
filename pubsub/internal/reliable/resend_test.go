package reliable

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// A broker that takes its time, say with a disk that it writes to for each message, is
// not sent the same again and again: each copy would wait behind the ones before.
func TestASlowBrokerIsNotSentTheSameAgainAndAgain(t *testing.T) {
	const written, each = 2000, 3 * time.Millisecond
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 2 * written})
		n.match()
		n.heal()
		write := func() {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		for range written {
			write()
		}
		n.wire, n.posted = nil, nil // a restart of the broker has cost them all
		var samples []func()
		n.s.out.Publish = func(_, key string, payload []byte, _ Sharing) error { // they have a connection of their own
			samples = append(samples, func() { n.r.Arrived(key, "w/w1", payload) })
			return nil
		}
		n.r.out.Post = func(_ string, message []byte) { // what the reader says does not wait behind that
			var e wire.Envelope
			_ = wire.Parse(message, &e)
			if m, err := wire.ParseRepair(e.Body); err == nil {
				n.s.acknowledged(theReader, &m)
			}
		}
		next := n.s.Tick(time.Now())
		began := time.Now()
		for i := 0; n.s.Lagging(written) != nil; i++ {
			if i%10 == 0 && i < 10*written { // it goes on, and what comes early has the reader ask
				write()
			}
			if time.Since(began) > time.Hour {
				t.Fatal("they do not arrive")
			}
			time.Sleep(each)
			if len(samples) > 0 && i%2 == 0 {
				samples[0]()
				samples = samples[1:]
			} else if len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			if !time.Now().Before(next) {
				next = n.s.Tick(time.Now())
			}
		}
		again := len(n.messages(wire.OpSample))
		t.Logf("%d samples were sent again, %d were missing", again, written)
		if again > written*3/2 {
			t.Errorf("%d samples were sent again, %d were missing", again, written)
		}
	})
}

// A broker that keeps few messages on the way to a client, and drops the others, has the
// samples that are sent again come in bursts that it does not drop.
func TestBurstsShrinkToWhatABrokerKeeps(t *testing.T) {
	const written, kept = 2000, 30
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true})
		n.match()
		n.heal()
		for range written {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.wire, n.posted = nil, nil // the broker has dropped them all
		again := 0
		post := n.s.out.Post
		n.s.out.Post = func(to string, message []byte) {
			if again++; len(n.wire) < kept {
				post(to, message)
			}
		}
		next := n.s.Tick(time.Now())
		for began := time.Now(); n.s.Lagging(written) != nil; {
			if time.Since(began) > time.Hour {
				t.Fatal("they do not arrive")
			}
			time.Sleep(time.Millisecond)
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			if !time.Now().Before(next) {
				next = n.s.Tick(time.Now())
			}
		}
		if again > 2*written {
			t.Errorf("%d messages for %d samples that were missing", again, written)
		}
	})
}

// An answer that may be to what was sent first is no measure of how long that takes: else the
// same would be sent twice for ever.
func TestWhatWasSentTwiceIsNotMeasured(t *testing.T) {
	const takes = 3 * minBeat / 2
	bubble.Test(t, func(t *testing.T) {
		var b burst
		send := func() {
			b.came(time.Now(), true)
			b.last, b.sent = 1, time.Now()
		}
		b.await(time.Now())
		send()
		time.Sleep(minBeat)
		b.await(time.Now()) // too late
		send()
		time.Sleep(takes - minBeat)
		b.came(time.Now(), true)
		if b.patience < takes {
			t.Errorf("what takes %v is sent again after %v", takes, b.patience)
		}
		send()
		time.Sleep(minBeat / 10)
		b.came(time.Now(), true)
		if b.await(time.Now()); b.patience > minBeat {
			t.Errorf("what takes %v is sent again after %v", minBeat/10, b.patience)
		}
	})
}

// A connection that is lost takes along what was sent, and is not slow for that.
func TestWhatALostConnectionTookIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true, KeepAll: true})
		n.match()
		n.heal()
		write := func() {
			if err := n.s.TryWrite("-", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
			n.wire = nil // it is lost
		}
		for range 10 {
			write()
			n.s.Last()
			n.step(0, "deliver") // the reader asks
			n.step(0, "deliver")
			write() // what it is sent is lost, too
			time.Sleep(minAsk)
			n.s.Stale()
			if took := n.allAfter(t); took > 5*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		}
	})
}

// A burst of which some was lost makes the next one no larger.
func TestABurstOfWhichSomeIsLostDoesNotGrow(t *testing.T) {
	now := time.Now()
	for _, all := range []bool{false, true} {
		b := burst{last: 1, sent: now, most: leastBurst}
		if b.came(now, all); b.size() > leastBurst != all {
			t.Errorf("all %v: the next one may have %d", all, b.size())
		}
	}
}
