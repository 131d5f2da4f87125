package pubsub

import (
	"testing"
	"time"

	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
)

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
		e := wire.Envelope{Nanos: uint64(time.Now().Add(-time.Hour).UnixNano()), Schema: wa.topic.schema}
		e.Body, _, _ = wa.topic.encodeSample(poseOf("r", 2))
		if err := wa.send.TryWrite("r", &e); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		write(t, wb, poseOf("r", 3))
		settle(time.Second)
		expectXs(t, "by source time", ra, 1, 3)
		expectXs(t, "by reception", rb, 1, 2, 3)
		if n := c.counters.dropped[drop.Late].Load(); n != 1 {
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
	topic := topicOf[pose](t, p, name("incompatible ", len(p.exchange.endpoints())))
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
