package pubsub

import (
	"testing"
	"time"
)

func TestSamplesFlowWithinPartitions(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		in := func(q QoS, partition ...string) QoS { q.Partition = partition; return q }
		w := writerOf(t, topicOf[pose](t, a, "p"), in(keepAll, "p1", "p2"))
		both := readerOf(t, topicOf[pose](t, b, "p"), in(keepAll, "p2", "p1"))
		pattern := readerOf(t, topicOf[pose](t, b, "p"), in(keepAll, "p*"))
		loose := readerOf(t, topicOf[pose](t, b, "p"), in(QoS{History: KeepAll}, "?2"))
		other := readerOf(t, topicOf[pose](t, b, "p"), in(keepAll, "p3"))
		none := readerOf(t, topicOf[pose](t, b, "p"), keepAll)
		awaitReaders(t, w, 3)
		for i := range 5 {
			write(t, w, poseOf("r", float64(i)))
		}
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		expectXs(t, "a reader in both", both, 0, 1, 2, 3, 4)
		expectXs(t, "a pattern", pattern, 0, 1, 2, 3, 4)
		expectXs(t, "a best-effort pattern", loose, 0, 1, 2, 3, 4)
		expectXs(t, "another partition", other)
		expectXs(t, "the default partition", none)
		if n := matchedPeers(other) + matchedPeers(none); n != 0 {
			t.Errorf("%d matched from elsewhere", n)
		}
		silent(t, "the writer", w.ep.events) // no IncompatibleQoS, as DDS has it
		silent(t, "a reader of another partition", other.ep.events)
	})
}

func TestAWritersPatternReachesReadersByTheirNames(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		q := keepAll
		q.Partition = []string{"hall*"}
		w := writerOf(t, topicOf[pose](t, a, "p"), q)
		write(t, w, poseOf("r", 1)) // nobody is there
		q.Partition = []string{"hall 7"}
		r7 := readerOf(t, topicOf[pose](t, b, "p"), q)
		q.Partition = []string{"hall 8", "yard"}
		r8 := readerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, w, 2)
		write(t, w, poseOf("r", 2))
		settle(time.Second)
		expectXs(t, "hall 7", r7, 2)
		expectXs(t, "hall 8", r8, 2)
		r7.Close()
		settle(time.Second)
		var got []string
		stop, err := b.SubscribeRaw(testContext(t), Main, []string{"data", "+", "p", "+", "a", "+"}, func(m RawMessage) { got = append(got, m.Levels[1]) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		write(t, w, poseOf("r", 3))
		settle(time.Second)
		if len(got) != 1 || got[0] != "hall 8" {
			t.Errorf("publishes to %q after the reader of hall 7 has gone", got)
		}
	})
}

// A best-effort reader has nobody who repairs what was not published to it.
func TestEachPartitionOfAWriterGetsItsSamples(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), QoS{Partition: []string{"hall", "yard"}})
		hall := readerOf(t, topicOf[pose](t, b, "p"), QoS{Partition: []string{"hall"}})
		yard := readerOf(t, topicOf[pose](t, b, "p"), QoS{Partition: []string{"yard"}})
		both := readerOf(t, topicOf[pose](t, b, "p"), QoS{Partition: []string{"hall", "yard"}, History: KeepAll})
		awaitReaders(t, w, 3)
		write(t, w, poseOf("r", 1))
		settle(time.Second)
		expectXs(t, "hall", hall, 1)
		expectXs(t, "yard", yard, 1)
		expectXs(t, "both", both, 1)
	})
}
