package pubsub

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Of many goroutines that write to one writer with a full history, each has its turn.
func TestEachWriteToAFullHistoryHasItsTurn(t *testing.T) {
	const writers = 8
	virtually(t, func(t *testing.T, d *world) {
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 5, MaxBlocking: time.Minute}
		w := writerOf(t, topicOf[pose](t, d.join("w"), "t"), q)
		r := readerOf(t, topicOf[pose](t, d.join("r"), "t"), q)
		awaitReaders(t, w, 1)
		wrote := make(chan int, 100)
		for i := range writers {
			go func() {
				for w.Write(t.Context(), poseOf("r", float64(i))) == nil {
					wrote <- i
				}
			}()
		}
		settle(time.Second)
		if err := w.TryWrite(poseOf("r", 0)); !errors.Is(err, ErrTimeout) {
			t.Errorf("a write that does not wait: %v", err)
		}
		for len(wrote) > 0 {
			<-wrote
		}
		var passed [writers]int // how many others have written since
		for range 20 * writers {
			if got := r.Take(1); len(got) != 1 {
				t.Fatal("nothing arrives")
			}
			settle(20 * time.Millisecond)
			for len(wrote) > 0 {
				who := <-wrote
				for i := range passed {
					passed[i]++
				}
				passed[who] = 0
			}
			if most := slices.Max(passed[:]); most > writers {
				t.Fatalf("%d others have written since somebody did", most)
			}
		}
	})
}
