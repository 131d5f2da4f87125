package pubsub

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPartitionsMeetAsNamesAndPatterns(t *testing.T) {
	for _, c := range []struct {
		a, b partitions
		want bool
	}{
		{nil, nil, true},
		{nil, partitions{"default"}, true},
		{nil, partitions{"*"}, true},
		{nil, partitions{"p1"}, false},
		{partitions{"p1"}, partitions{"p1"}, true},
		{partitions{"p1"}, partitions{"p2"}, false},
		{partitions{"p1", "p2"}, partitions{"p3", "p2"}, true},
		{partitions{"p1"}, partitions{"p*"}, true},
		{partitions{"x1"}, partitions{"p*"}, false},
		{partitions{"p1"}, partitions{"p?"}, true},
		{partitions{"p12"}, partitions{"p?"}, false},
		{partitions{"pb"}, partitions{"p[a-c]"}, true},
		{partitions{"pd"}, partitions{"p[!a-c]"}, true},
		{partitions{"pb"}, partitions{"p[!a-c]"}, false},
		{partitions{"site/hall/7"}, partitions{"site*7"}, true}, // a slash is no border
		{partitions{"p*"}, partitions{"p*"}, false},             // two patterns never meet
		{partitions{"*"}, partitions{"p*"}, false},
		{partitions{"p*", "q"}, partitions{"p*", "q"}, true},
		{partitions{"["}, partitions{"a"}, false}, // a stranger's
	} {
		if c.a.meets(c.b) != c.want || c.b.meets(c.a) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
	}
}

// Whenever two match, the writer publishes to a topic that the reader hears.
func TestWhoMeetsIsHeard(t *testing.T) {
	list := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "ab", "a/b", "a*", "*", "?", "[ab]", "[!a]", "default"}), 0, 4, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		w, r := partitions(list.Draw(t, "writer")), partitions(list.Draw(t, "reader"))
		if w.validate() != nil || r.validate() != nil {
			t.Fatal("refused")
		}
		readers := map[GUID]*remoteReader{}
		if w.meets(r) {
			readers[GUID{}] = &remoteReader{partitions: r}
		}
		heard := false
		for _, level := range w.published(readers) {
			for _, f := range r.filters() {
				heard = heard || f == level || f == "+"
			}
		}
		if w.meets(r) && !heard {
			t.Fatalf("%q publishes to %q, %q hears %q", w, w.published(readers), r, r.filters())
		}
	})
}

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
		if got := w.send.partitions; len(got) != 1 || got[0] != "hall%208" {
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
