package pubsub

import (
	"testing"
	"time"
)

func FuzzAnnouncements(f *testing.F) {
	f.Add([]byte(`{"kind":"writer","topic":"t","schema":"1","incarnation":"2","epoch":"3","qos":{"reliability":1}}`))
	f.Add([]byte(`{"alive":true,"incarnation":"1","epoch":"2","since":"2024-01-01T00:00:00Z"}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseEndpoint("p", "w1", b)
		_, _ = parsePresence("p", b)
	})
}

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
