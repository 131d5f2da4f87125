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
