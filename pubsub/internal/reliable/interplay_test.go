package reliable

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/wire"
	"padme/tests/bubble"
)

// Who looks at a full reader just when what is in it expires makes room as well.
func TestReadingWhatExpiresMakesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const lifespan = 5 * time.Second
		n := newLossyPair(Policies{Reliable: true, KeepAll: true, MaxSamples: 4})
		n.match()
		n.heal()
		for i := range 5 {
			e := wire.Envelope{Schema: 7, Nanos: uint64(time.Now().UnixNano())}
			if i < 4 {
				e.Options.Lifespan = uint64(lifespan)
			}
			for len(n.wire) > 0 {
				n.step(0, "deliver")
			}
			if err := n.s.TryWrite("-", &e); err != nil {
				t.Fatal(err)
			}
		}
		for len(n.wire) > 0 {
			n.step(0, "deliver")
		}
		if !n.r.stalled {
			t.Fatal("the reader is not full")
		}
		time.Sleep(lifespan)
		n.r.Collect(1, &anySample, false)
		n.r.Tick(time.Now())
		n.heal()
		if got := n.r.Collect(9, &anySample, false); len(got) != 1 || got[0].Seq != 5 {
			t.Errorf("%d samples wait, stalled %v", len(got), n.r.stalled)
		}
	})
}

// What a writer wrote before its lease ended may be heard after.
func TestWhatComesLateOfADeadWriterLeavesNoWriter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newLossyPair(Policies{Reliable: true}, Policies{Reliable: true, Depth: 2})
		n.r.Matched(Peer{GUID: theWriter, Reliable: true, Lease: time.Second})
		n.s.Matched(Peer{GUID: theReader, Reliable: true})
		n.heal()
		for range 2 {
			if err := n.s.TryWrite("k", &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
		n.step(0, "lose")
		n.step(0, "deliver")
		n.wire = nil
		time.Sleep(2 * time.Second)
		n.r.Tick(time.Now())
		n.heal() // the first one is replaced: the second one follows
		h := n.r.TakeNext()
		if h == nil || h.Seq != 2 {
			t.Fatalf("%+v", h)
		}
		if h.InstanceState != cache.NoWriters {
			t.Errorf("the instance is in state %d although the only writer is dead", h.InstanceState)
		}
	})
}

// What has expired is not kept for a broker that may lose its memory either.
func TestWhatIsRetainedExpires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := NewSender(&Writer{Name: "w1", Incarnation: 1, Policies: withDefaults(Policies{Reliable: true, Historic: true, Transient: true, Lifespan: 5 * time.Second})}, noOut(), &recorder{})
		for _, key := range []string{"old", "new"} {
			if err := s.TryWrite(key, &wire.Envelope{Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			s.Tick(time.Now())
		}
		if old, young := s.retention.last["old"], s.retention.last["new"]; len(old.payload) > 0 || len(young.payload) == 0 {
			t.Errorf("%d bytes are kept of what is over and %d of what is not", len(old.payload), len(young.payload))
		}
	})
}

// Whatever happens, Tick is called when something is due.
func TestWhatBecomesDueIsScheduled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{Reliable: true, KeepAll: rapid.Bool().Draw(t, "keep all"), MaxSamples: rapid.IntRange(2, 6).Draw(t, "samples"), MaxInstances: 3, TimeBasedFilter: 5 * time.Second}
		if rapid.Bool().Draw(t, "deadline") {
			q.Deadline = 10 * time.Second
		}
		n := newLossyPair(q)
		n.r.Matched(Peer{GUID: theWriter, Reliable: true, Lease: time.Hour})
		w, now := n.r.writers["w/w1"], time.Now()
		w.started, w.next = true, 1
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				s := cache.Sample{Key: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"), Writer: &w.Writer, Seq: w.next, Nanos: uint64(now.UnixNano())}
				if rapid.Bool().Draw(t, "expires") {
					s.Expiry = cache.ExpiryOf(&wire.Envelope{Nanos: s.Nanos, Options: wire.Options{Lifespan: uint64(4 * time.Second)}}, now)
				}
				if n.r.deliver(w, sample{Sample: s}, now) {
					w.next++
				}
			case op < 7:
				now = now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
				n.r.Tick(now)
			case op < 9:
				n.r.Collect(rapid.IntRange(1, 9).Draw(t, "n"), &anySample, rapid.Bool().Draw(t, "take"))
			default:
				q.TimeBasedFilter = time.Duration(rapid.IntRange(0, 3).Draw(t, "separation")) * time.Second
				n.r.Adapt(q)
			}
			if next := n.r.cache.Due(); !next.IsZero() && (n.r.due.IsZero() || n.r.due.After(next)) {
				t.Fatalf("due at %v, scheduled for %v", next, n.r.due)
			}
		}
	})
}
