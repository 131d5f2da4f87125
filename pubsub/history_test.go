package pubsub

import (
	"errors"
	"testing"
	"time"
)

// A late joiner gets the history whole, in order and once, whichever side is best effort.
func TestABestEffortLateJoinerGetsTheHistory(t *testing.T) {
	loose := QoS{Durability: TransientLocal, History: KeepAll}
	for _, c := range []struct {
		name               string
		offered, requested QoS
	}{
		{"both are best effort", loose, loose},
		{"the reader is best effort", local, loose},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, d *domain) {
				a, b := d.join("a"), d.join("b")
				w := writerOf(t, topicOf[pose](t, a, "p"), c.offered)
				depth := c.offered
				depth.History, depth.Depth = KeepLast, 2
				last := writerOf(t, topicOf[pose](t, a, "last"), depth)
				var want []float64
				put := func() {
					write(t, w, poseOf("r", float64(len(want))))
					want = append(want, float64(len(want)))
				}
				for i := range 300 {
					put()
					write(t, last, poseOf("r", float64(i)))
				}
				settle(time.Second)
				r := readerOf(t, topicOf[pose](t, b, "p"), c.requested)
				few := readerOf(t, topicOf[pose](t, b, "last"), c.requested)
				volatile := readerOf(t, topicOf[pose](t, b, "p"), QoS{History: KeepAll})
				for range 300 { // it goes on meanwhile
					put()
					settle(100 * time.Microsecond)
				}
				if err := r.WaitForHistoricalData(testContext(t)); err != nil {
					t.Fatal(err)
				}
				if err := w.WaitAcked(testContext(t)); err != nil {
					t.Fatal(err)
				}
				settle(time.Second)
				expectXs(t, "a late joiner", r, want...)
				expectXs(t, "what is held of an instance", few, 298, 299)
				if got := xs(volatile); len(got) > 300 {
					t.Errorf("a volatile one got %v", got)
				}
				if put(); w.send.Lagging(w.send.Last()) != nil {
					t.Error("the writer still takes a best-effort reader for reliable")
				}
				silent(t, "the reader", r.ep.events)
				silent(t, "the writer", w.ep.events)
			})
		})
	}
}

// It is best effort again once it has the history: nobody waits for it.
func TestABestEffortWriterDoesNotBlock(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		b, fuse := d.joinBy("b")
		q := QoS{Durability: TransientLocal, History: KeepAll, MaxSamples: 4}
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		for i := range 10 {
			write(t, w, poseOf("r", float64(i)))
		}
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		settle(time.Second)
		expectXs(t, "of a history that is full", r, 6, 7, 8, 9)
		fuse.blow(true)
		for i := range 10 {
			if err := w.TryWrite(poseOf("r", float64(10+i))); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := w.Close(testContext(t)); err != nil && !errors.Is(err, ErrUndelivered) || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		fuse.blow(false)
		settle(time.Minute)
		silent(t, "the reader", r.ep.events)
	})
}

// A writer that keeps all, and only so much of it for late joiners, writes without end:
// readers that are there get everything, those to come the last of each instance.
func TestAWriterWithoutEndKeepsTheLastForLateJoiners(t *testing.T) {
	for _, reliability := range []Reliability{Reliable, BestEffort} {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a := d.join("a")
			b, fuse := d.joinBy("b")
			q := QoS{Reliability: reliability, Durability: TransientLocal, History: KeepAll, DurabilityService: 3, MaxSamples: 20}
			w := writerOf(t, topicOf[pose](t, a, "p"), q)
			all := QoS{Reliability: reliability, Durability: TransientLocal, History: KeepAll}
			r := readerOf(t, topicOf[pose](t, b, "p"), all)
			awaitReaders(t, w, 1)
			var want []float64
			put := func(instances int) {
				write(t, w, poseOf(name("r", len(want)%instances), float64(len(want))))
				want = append(want, float64(len(want)))
			}
			for range 500 {
				put(2)
				settle(time.Millisecond)
			}
			settle(time.Second)
			expectXs(t, "who was there", r, want...)
			late := readerOf(t, topicOf[pose](t, b, "p"), all)
			settle(time.Second)
			expectXs(t, "who came later", late, 494, 495, 496, 497, 498, 499)
			if held := w.send.Held(); held != 6 {
				t.Errorf("%d samples are held", held)
			}
			if reliability == BestEffort {
				return
			}
			fuse.blow(true) // what a reader lacks is kept, as much as there is room for
			for range 17 {
				put(1)
			}
			settle(time.Second)
			if err := w.TryWrite(poseOf("r", 0)); !errors.Is(err, ErrTimeout) {
				t.Errorf("written beyond what is lacked: %v", err)
			}
			fuse.blow(false)
			settle(20 * time.Second)
			expectXs(t, "who was away", r, want[500:]...)
			put(1)
			silent(t, "the reader", r.ep.events)
			silent(t, "a late one", late.ep.events)
		})
	}
}

// Even if that takes all the room there is.
func TestAWriterWithoutEndMayBeFull(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll, DurabilityService: 3, MaxSamples: 6})
		r := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
		awaitReaders(t, w, 1)
		var want []float64
		for i := range 20 {
			want = append(want, float64(i))
			write(t, w, poseOf(name("r", i%2), float64(i)))
		}
		settle(time.Second)
		expectXs(t, "who was there", r, want...)
		late := readerOf(t, topicOf[pose](t, b, "p"), local)
		settle(time.Second)
		expectXs(t, "who came later", late, 14, 15, 16, 17, 18, 19)
	})
}

// Readers hold nothing for others, and a writer no more than it has room for.
func TestWhatIsKeptForLateJoinersIsChecked(t *testing.T) {
	topic := topicOf[pose](t, join(t, startBroker(t), "a"), "t")
	q := QoS{Reliability: Reliable, Durability: TransientLocal, History: KeepAll, DurabilityService: 2}
	if _, err := NewReader(testContext(t), topic, WithQoS(q)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for _, n := range []int{-1, 8193} {
		q.DurabilityService = n
		if _, err := NewWriter(testContext(t), topic, WithQoS(q)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
