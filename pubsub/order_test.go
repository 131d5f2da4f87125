package pubsub

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Two readers that get the samples of several writers in different orders end
// with the same one, give times that never fall, and count what they drop.
func TestReadersBySourceTimeAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := QoS{BySourceTime: true, History: KeepAll}
		_ = q.validate()
		var samples []inSample
		for i := range rapid.IntRange(1, 12).Draw(t, "samples") {
			w := &remoteWriter{guid: GUID{"p", 1, rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(t, "writer")}}
			samples = append(samples, inSample{
				key: "k", writer: w, seq: uint64(i + 1), nanos: uint64(rapid.IntRange(1, 4).Draw(t, "time")),
				status: status(rapid.IntRange(0, 1).Draw(t, "status")),
			})
		}
		var ends []moment
		for _, order := range []string{"first", "second"} {
			r := newReceiver("r1", 1, 7, q, newEvents())
			late := 0
			r.drop = func(why reason) {
				if why == dropLate {
					late++
				}
			}
			for _, s := range rapid.Permutation(samples).Draw(t, order) {
				r.deliver(s.writer, s, time.Now())
			}
			i := r.cache.byKey["k"]
			var last moment
			given := 0
			for h := r.takeNext(); h != nil; h = r.takeNext() {
				m := moment{h.nanos, h.writer.guid}
				if m.compare(last) < 0 {
					t.Fatalf("%v after %v", m, last)
				}
				last = m
				given++
			}
			if given+late > len(samples) {
				t.Fatalf("%d given, %d late, of %d", given, late, len(samples))
			}
			ends = append(ends, i.newest)
		}
		if ends[0] != ends[1] {
			t.Fatalf("two readers end with %+v and %+v", ends[0], ends[1])
		}
	})
}

func TestALateSampleIsDroppedBySourceTime(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b, c := d.join("a"), d.join("b"), d.join("c")
		q := keepAll
		q.BySourceTime = true
		ra := readerOf(t, topicOf[pose](t, c, "p"), q)
		rb := readerOf(t, topicOf[pose](t, c, "p"), keepAll)
		wa := writerOf(t, topicOf[pose](t, a, "p"), q)
		wb := writerOf(t, topicOf[pose](t, b, "p"), q)
		awaitReaders(t, wa, 2)
		awaitReaders(t, wb, 2)
		write(t, wb, poseOf("r", 1))
		settle(time.Second)
		// What a writes with a clock that is an hour behind comes late.
		e := envelope{nanos: uint64(time.Now().Add(-time.Hour).UnixNano()), schema: wa.topic.schema}
		e.body, _ = wa.topic.encodeSample(poseOf("r", 2))
		if _, err := wa.send.tryWrite("r", &e); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		write(t, wb, poseOf("r", 3))
		settle(time.Second)
		expectXs(t, "by source time", ra, 1, 3)
		expectXs(t, "by reception", rb, 1, 2, 3)
		if n := c.counters.dropped[dropLate].Load(); n != 1 {
			t.Errorf("%d counted as late", n)
		}
		if err := wa.WaitAcked(testContext(t)); err != nil {
			t.Errorf("a late sample is not acknowledged: %v", err)
		}
	})
}

func TestDestinationOrderIsOfferedAndRequested(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		bySource := keepAll
		bySource.BySourceTime = true
		expectIncompatible(t, a, keepAll, bySource, "DESTINATION_ORDER")
		expectIncompatible(t, a, bySource, keepAll, "")
	})
}

// expectIncompatible checks that both sides are told the policy, and that no
// data flows; or with "" that it does.
func expectIncompatible(t *testing.T, p *Participant, offered, requested QoS, policy string) {
	t.Helper()
	topic := topicOf[pose](t, p, name("incompatible ", p.exchange.count))
	w, r := writerOf(t, topic, offered), readerOf(t, topic, requested)
	settle(time.Second)
	write(t, w, poseOf("r", 1))
	settle(time.Second)
	got := xs(r)
	if policy == "" {
		if len(got) != 1 {
			t.Errorf("offered %+v, requested %+v: no data flows", offered, requested)
		}
		return
	}
	for _, side := range []struct {
		ev   *events
		peer GUID
	}{{w.ep.events, r.GUID()}, {r.ep.events, w.GUID()}} {
		if e := drain(side.ev); len(e) != 1 || e[0] != Event(IncompatibleQoS{side.peer, policy}) {
			t.Errorf("told %+v, want %s of %v", e, policy, side.peer)
		}
	}
	if len(got) > 0 {
		t.Errorf("%v flowed in spite of %s", got, policy)
	}
}

// A wall clock that is set back does not make a writer's samples late.
func TestSourceTimesOfAWriterGrow(t *testing.T) {
	n := newLossyPair(QoS{BySourceTime: true, History: KeepAll})
	n.match()
	n.heal()
	now := uint64(time.Now().UnixNano())
	for _, nanos := range []uint64{now, now - 1000, now - 1000, now} {
		if _, err := n.s.tryWrite("k", &envelope{schema: 7, nanos: nanos}); err != nil {
			t.Fatal(err)
		}
	}
	n.heal()
	for want := range uint64(4) {
		if h := n.r.takeNext(); h == nil || h.seq != want+1 || h.nanos != now+want {
			t.Fatalf("sample %d: %+v", want+1, h)
		}
	}
}
