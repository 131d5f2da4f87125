package cache

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// The reader's clock is not the writer's.
func TestALifespanGoesByTheShorterOfTwoClocks(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		written, lifespan, left time.Duration
	}{
		{0, time.Second, time.Second},
		{-300 * time.Millisecond, time.Second, 700 * time.Millisecond},
		{-2 * time.Second, time.Second, -time.Second},
		{time.Hour, time.Second, time.Second}, // our clock is an hour behind
	} {
		e := wire.Envelope{Nanos: uint64(now.Add(c.written).UnixNano())}
		e.Options.Lifespan = uint64(c.lifespan)
		m := ExpiryOf(&e, now)
		if left := m.due.Sub(now); left != c.left || m.Over(now) != (c.left <= 0) {
			t.Errorf("%+v: %v left", c, left)
		}
	}
	var none wire.Envelope
	if ExpiryOf(&none, now).Over(now) {
		t.Error("a sample without lifespan is over")
	}
	for _, nanos := range []uint64{0, 1, 1 << 62, 1<<64 - 1} {
		for _, span := range []uint64{1, 1 << 62, 1<<64 - 1} {
			e := wire.Envelope{Nanos: nanos}
			e.Options.Lifespan = span
			if m := ExpiryOf(&e, now); m.due.Sub(now) > time.Duration(min(span, maxLifespan)) {
				t.Errorf("nanos %d, lifespan %d: due %v", nanos, span, m.due)
			}
		}
	}
}

// However samples come, are taken, replaced and expire, the cache counts right.
func TestExpiryKeepsTheCacheInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{Depth: rapid.IntRange(1, 3).Draw(t, "depth"), MaxSamples: 20, MaxInstances: 10}
		if rapid.Bool().Draw(t, "keep all") {
			q.KeepAll = true
		}
		c := New(&q)
		w := &Writer{}
		now := time.Unix(0, 0)
		seq := uint64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				seq++
				s := Sample{Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Writer: w, Seq: seq}
				if rapid.Bool().Draw(t, "mortal") {
					s.Expiry = &Expiry{due: now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "lifespan")))}
				}
				if _, err := c.Accept(s, now); err != nil && !q.KeepAll {
					t.Fatal(err)
				}
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "passes")))
				c.expire(now)
			case 3:
				c.Collect(1, &Selection{}, true, nil)
			}
			var inQueue, inInstances, toExpire int
			last := uint64(0)
			for _, h := range c.queue {
				switch {
				case h.gone:
					continue
				case h.Seq <= last:
					t.Fatalf("%d after %d", h.Seq, last)
				case h.Expiry != nil:
					toExpire++
				}
				last = h.Seq
				inQueue++
			}
			for _, i := range c.byKey {
				inInstances += len(i.held)
			}
			if inQueue != c.live || inInstances != c.live || toExpire != len(c.expiries) {
				t.Fatalf("live %d, in the queue %d, in instances %d, to expire %d of %d", c.live, inQueue, inInstances, toExpire, len(c.expiries))
			}
			for place, h := range c.expiries {
				if h.Expiry.place != place || h.gone {
					t.Fatalf("%+v at %d", h.Expiry, place)
				}
			}
			if c.expire(now); len(c.expiries) != toExpire && len(c.expiries) > 0 && c.expiries[0].Expiry.Over(now) {
				t.Fatal("something is over and still there")
			}
		}
	})
}
