package pubsub

import (
	"testing"

	"padme/tests/brokers"
)

// A broker that returns no announcements is not one at which nobody writes.
func TestAHistoryIsWaitedForAtAnyBroker(t *testing.T) {
	url := brokers.Use(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	q := QoS{Reliability: Reliable, Durability: TransientLocal, Depth: 3}
	w := writerOf(t, topicOf[pose](t, a, "p"), q)
	for i := range 5 {
		write(t, w, poseOf("r1", float64(i)))
		write(t, w, poseOf("r2", float64(i)))
	}
	for range 2 { // the second question comes soon after the first
		r := readerOf(t, topicOf[pose](t, b, "p"), q)
		if err := r.WaitForHistoricalData(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Take(100)); got != 6 {
			t.Errorf("%d samples are there, 6 were kept", got)
		}
		r.Close()
	}
}
