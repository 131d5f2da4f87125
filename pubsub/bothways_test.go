package pubsub

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub/internal/drop"
)

// blob is a sample as large as one wants.
type blob struct {
	N    int
	Data []byte
}

// A broker that cannot write to a participant does not read from it. Whoever sends as much
// as it receives must go on reading, or each waits for the other.
func TestLargeSamplesGoBothWays(t *testing.T) {
	t.Parallel()
	t.Run("sockets", func(t *testing.T) {
		url := startBroker(t)
		bothWays(t, join(t, url, "a"), join(t, url, "b"), 300, 200_000)
	})
	t.Run("pipes", func(t *testing.T) { // which hold less
		b, err := broker.Start(t.Context(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stopBroker(t, b) })
		bothWays(t, join(t, "", "a", WithDialer(b.Dial)), join(t, "", "b", WithDialer(b.Dial)), 300, 20_000)
	})
}

func bothWays(t *testing.T, a, b *Participant, n, size int) {
	t.Helper()
	var all sync.WaitGroup
	for i, way := range [][2]*Participant{{a, b}, {b, a}} {
		name := fmt.Sprint("images-", i)
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 1000, MaxBlocking: 30 * time.Second} // a busy machine takes seconds
		w, r := writerOf(t, topicOf[blob](t, way[0], name), q), readerOf(t, topicOf[blob](t, way[1], name), q)
		if err := w.WaitMatched(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for k := range n {
				if err := w.Write(context.Background(), blob{k, make([]byte, size)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			k := 0
			for s, err := range r.Samples(testContext(t)) {
				if err != nil {
					t.Errorf("after %d: %v", k, err)
					return
				}
				if s.Data.N != k {
					t.Errorf("%d, want %d", s.Data.N, k)
				}
				if k++; k == n {
					return
				}
			}
		})
	}
	all.Wait()
	for _, p := range []*Participant{a, b} {
		if n := p.counters.dropped[drop.Disconnect].Load(); n > 0 {
			t.Errorf("%q gave up a connection with %d messages under way", p.ID(), n)
		}
	}
}
