package pubsub

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/tests/bubble"
)

func TestASampleExpiresInTheReader(t *testing.T) {
	for _, reliability := range []Reliability{BestEffort, Reliable} {
		virtually(t, func(t *testing.T, v *world) {
			w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), QoS{Reliability: reliability, Lifespan: 250 * time.Millisecond})
			r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), QoS{Reliability: reliability, History: KeepAll})
			awaitReaders(t, w, 1)
			for i := range 5 {
				write(t, w, pose{Robot: fmt.Sprint("r", i%2), X: float64(i)})
				pass(100 * time.Millisecond)
			}
			// Written 500, 400, 300, 200 and 100 ms ago.
			if got := len(r.Read(10)); got != 2 {
				t.Errorf("Read returned %d", got)
			}
			if got := values(r); !reflect.DeepEqual(got, []float64{3, 4}) {
				t.Errorf("took %v", got)
			}
			write(t, w, pose{X: 5})
			pass(time.Second)
			r.recv.mu.Lock()
			live, kept := r.recv.cache.live, len(r.recv.cache.mortals)
			r.recv.mu.Unlock()
			if live != 0 || kept != 0 {
				t.Errorf("%d samples are kept, %d of them to expire, although nobody took any", live, kept)
			}
		})
	}
}

func TestALateJoinerGetsNothingThatHasExpired(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		q := QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll, Lifespan: 10 * time.Second}
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), q)
		write(t, w, pose{Robot: "old", X: 1})
		if err := w.Dispose(testContext(t), pose{Robot: "gone"}); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		write(t, w, pose{Robot: "new", X: 2})
		pass(6 * time.Second)
		w.send.mu.Lock()
		held := len(w.send.held)
		w.send.mu.Unlock()
		if held != 2 { // the new one, and that "gone" is disposed
			t.Errorf("the writer holds %d samples", held)
		}
		q.Lifespan = 0
		r := readerOf(t, topicOf[pose](t, v.join("b"), "p"), q)
		awaitReaders(t, w, 1)
		pass(time.Second)
		if got := states(r); !reflect.DeepEqual(got, map[string]InstanceState{"new": Alive, "gone": Disposed}) {
			t.Errorf("the late joiner got %v", got)
		}
		if lost := told[SampleLost](r.ep.events); len(lost) > 0 {
			t.Errorf("told that %v are lost, which were written before it came", lost)
		}
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Errorf("WaitAcked: %v", err)
		}
	})
}

// What comes too late, because the reader was away, is as if it had not been
// written.
func TestASampleExpiresOnItsWay(t *testing.T) {
	virtually(t, func(t *testing.T, v *world) {
		w := writerOf(t, topicOf[pose](t, v.join("a"), "p"), QoS{Reliability: Reliable, History: KeepAll, Lifespan: time.Second})
		b, wire := v.joinBy("b")
		r := readerOf(t, topicOf[pose](t, b, "p"), QoS{Reliability: Reliable, History: KeepAll})
		awaitReaders(t, w, 1)
		write(t, w, pose{X: 1})
		pass(0)
		wire.cut()
		write(t, w, pose{X: 2})
		pass(2 * time.Second)
		wire.mend()
		write(t, w, pose{X: 3})
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for _, x := range values(r) {
			if x == 2 {
				t.Error("an expired sample was delivered")
			}
		}
	})
}

// A writer and a reader that are full, because nobody takes anything, go on when
// what they hold expires.
func TestExpiryMakesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const lifespan = 5 * time.Second
		n := newLossyPair(QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 4, Lifespan: lifespan})
		n.match()
		deliver := func() {
			for i := 0; len(n.wire) > 0 && i < 1000; i++ {
				n.step(0, "deliver")
			}
		}
		write := func() (wait <-chan struct{}, err error) {
			e := envelope{schema: 7, nanos: uint64(time.Now().UnixNano())}
			e.options.lifespan = uint64(lifespan)
			return n.s.tryWrite("-", &e)
		}
		deliver()
		var wait <-chan struct{}
		written := 0
		for err := error(nil); err == nil; written++ {
			deliver()
			wait, err = write()
		}
		if written != 9 { // the ninth did not fit
			t.Fatalf("wrote %d samples where there is room for 8", written-1)
		}
		time.Sleep(lifespan)
		n.wire = nil // nothing but time wakes them
		if next := n.r.tick(time.Now()); !next.IsZero() || n.r.cache.live != 0 || n.r.stalled {
			t.Errorf("reader: %d samples, stalled %v, next tick %v", n.r.cache.live, n.r.stalled, next)
		}
		n.s.tick(time.Now())
		select {
		case <-wait:
		default:
			t.Error("the blocked writer was not told that there is room")
		}
		deliver()
		if _, err := write(); err != nil {
			t.Errorf("the writer: %v", err)
		}
		deliver()
		if h := n.r.takeNext(); h == nil || h.seq != 9 {
			t.Errorf("the reader has %+v", h)
		}
	})
}

// A sample that is over when it arrives is acknowledged, and means nothing for
// its instance.
func TestWhatArrivesTooLateIsNoSignOfLife(t *testing.T) {
	n := newLossyPair(QoS{Reliability: Reliable, Exclusive: true, Deadline: time.Hour})
	n.match()
	n.heal()
	e := envelope{schema: 7, nanos: uint64(time.Now().Add(-2 * time.Second).UnixNano())}
	e.options.lifespan = uint64(time.Second)
	if _, err := n.s.tryWrite("-", &e); err != nil {
		t.Fatal(err)
	}
	n.heal()
	if len(n.r.cache.byKey) > 0 || !n.r.cache.deadlines.next().IsZero() {
		t.Error("it made an instance")
	}
	if wait := n.s.lagging(1); wait != nil {
		t.Error("it was not acknowledged")
	}
}

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
		e := envelope{nanos: uint64(now.Add(c.written).UnixNano())}
		e.options.lifespan = uint64(c.lifespan)
		m := lifespanOf(&e, now)
		if left := m.due.Sub(now); left != c.left || m.over(now) != (c.left <= 0) {
			t.Errorf("%+v: %v left", c, left)
		}
	}
	var none envelope
	if lifespanOf(&none, now).over(now) {
		t.Error("a sample without lifespan is over")
	}
	for _, nanos := range []uint64{0, 1, 1 << 62, 1<<64 - 1} {
		for _, span := range []uint64{1, 1 << 62, 1<<64 - 1} {
			e := envelope{nanos: nanos}
			e.options.lifespan = span
			if m := lifespanOf(&e, now); m.due.Sub(now) > time.Duration(min(span, maxLifespan)) {
				t.Errorf("nanos %d, lifespan %d: due %v", nanos, span, m.due)
			}
		}
	}
}

// However samples come, are taken, replaced and expire, the cache counts right.
func TestExpiryKeepsTheCacheInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := QoS{Depth: rapid.IntRange(1, 3).Draw(t, "depth"), MaxSamples: 20, MaxInstances: 10}
		if rapid.Bool().Draw(t, "keep all") {
			q.History = KeepAll
		}
		c := instances{qos: q, byKey: map[string]*instance{}, wake: make(chan struct{}, 1)}
		w := &remoteWriter{}
		now := time.Unix(0, 0)
		seq := uint64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				seq++
				s := inSample{key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), writer: w, seq: seq}
				if rapid.Bool().Draw(t, "mortal") {
					s.mortal = &mortal{due: now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "lifespan")))}
				}
				if _, err := c.accept(s, now); err != nil && q.History == KeepLast {
					t.Fatal(err)
				}
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "passes")))
				c.expire(now)
			case 3:
				c.take()
			}
			var inQueue, inInstances, toExpire int
			last := uint64(0)
			for _, h := range c.queue {
				switch {
				case h.gone:
					continue
				case h.seq <= last:
					t.Fatalf("%d after %d", h.seq, last)
				case h.mortal != nil:
					toExpire++
				}
				last = h.seq
				inQueue++
			}
			for _, i := range c.byKey {
				inInstances += len(i.held)
			}
			if inQueue != c.live || inInstances != c.live || toExpire != len(c.mortals) {
				t.Fatalf("live %d, in the queue %d, in instances %d, to expire %d of %d", c.live, inQueue, inInstances, toExpire, len(c.mortals))
			}
			for place, h := range c.mortals {
				if h.mortal.place != place || h.gone {
					t.Fatalf("%+v at %d", h.mortal, place)
				}
			}
			if c.expire(now); len(c.mortals) != toExpire && len(c.mortals) > 0 && c.mortals[0].mortal.over(now) {
				t.Fatal("something is over and still there")
			}
		}
	})
}
