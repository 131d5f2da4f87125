package pubsub

import (
	"testing"
	"time"
)

// However small the history, acknowledgements come as it fills.
func TestASmallHistoryDoesNotWaitForHeartbeats(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p"), QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 2})
		readerOf(t, topicOf[pose](t, d.join("b"), "p"), QoS{Reliability: Reliable, History: KeepAll})
		awaitReaders(t, w, 1)
		began := time.Now()
		for range 100 {
			write(t, w, pose{})
		}
		if took := time.Since(began); took >= 100*time.Millisecond {
			t.Errorf("100 samples took %v", took)
		}
	})
}
