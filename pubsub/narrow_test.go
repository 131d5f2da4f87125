package pubsub

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Over a network that loses, repeats and reorders, a reader of one instance gets
// all of it, in order and once, and what is written to others is held for nobody.
func TestANarrowReaderGetsAllOfItsInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := QoS{Reliability: Reliable, History: KeepAll, MaxSamples: 200}
		if rapid.Bool().Draw(t, "transient-local") {
			q.Durability = TransientLocal
		}
		n := newLossyPair(q)
		n.r.narrow = true
		n.s.publish = func(key string, payload []byte) error {
			if key != "a" {
				return nil // the broker does not deliver it
			}
			n.wire = append(n.wire, func() { n.r.sample(key, "w/w1", payload) })
			return nil
		}
		var want, got []uint64
		write := func() {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			if _, err := n.s.tryWrite(key, &envelope{schema: 7}); err != nil {
				t.Fatal(err)
			}
			if key == "a" {
				want = append(want, n.s.seq)
			}
		}
		if q.Durability == TransientLocal {
			for range rapid.IntRange(0, 10).Draw(t, "before") {
				write()
			}
		}
		reader := endpoint{guid: GUID{"r", 2, "r1"}}
		reader.QoS = offer{Reliability: Reliable, Durability: q.Durability, dataOffer: dataOffer{Instance: "a"}}
		writer := endpoint{guid: GUID{"w", 1, "w1"}}
		writer.QoS = offer{Reliability: Reliable, Durability: q.Durability, dataOffer: dataOffer{}}
		n.r.matched(writer)
		n.s.matched(reader)
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 7).Draw(t, "op"); {
			case op < 3:
				write()
			case op < 4:
				n.tick()
			case len(n.wire) > 0:
				i := rapid.IntRange(0, len(n.wire)-1).Draw(t, "message")
				n.step(i, rapid.SampledFrom([]string{"deliver", "lose", "repeat", "deliver"}).Draw(t, "fate"))
			}
		}
		if !n.heal() {
			t.Fatal("the two never come to rest")
		}
		for h := n.r.takeNext(); h != nil; h = n.r.takeNext() {
			if h.key != "a" {
				t.Fatalf("a sample of %q", h.key)
			}
			got = append(got, h.info.Sequence)
		}
		if len(got) != len(want) {
			t.Fatalf("got %v of %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		if n.s.lagging(n.s.seq) != nil {
			t.Fatal("everything arrived but is not acknowledged")
		}
		if q.Durability == Volatile && len(n.s.held) > 0 {
			t.Fatalf("%d samples are still held", len(n.s.held))
		}
		if e := drain(n.r.events); len(e) != 2 { // Matched and LivelinessChanged
			t.Fatalf("told %+v", e)
		}
	})
}

func TestANarrowReaderIsToldOfLosses(t *testing.T) {
	n := newLossyPair(QoS{Reliability: Reliable})
	n.r.narrow = true
	reader, writer := endpoint{guid: GUID{"r", 2, "r1"}}, endpoint{guid: GUID{"w", 1, "w1"}}
	reader.QoS = offer{Reliability: Reliable, dataOffer: dataOffer{Instance: "a"}}
	writer.QoS = offer{Reliability: Reliable, dataOffer: dataOffer{}}
	n.r.matched(writer)
	n.s.matched(reader)
	n.heal()
	for _, key := range []string{"a", "b", "a", "b", "a"} {
		if _, err := n.s.tryWrite(key, &envelope{schema: 7}); err != nil {
			t.Fatal(err)
		}
	}
	n.wire = n.wire[4:] // all but the last are lost, and depth 1 has replaced them
	n.heal()
	var lost uint64
	for _, e := range drain(n.r.events) {
		if l, ok := e.(SampleLost); ok {
			lost += l.Count
		}
	}
	if h := n.r.takeNext(); h == nil || h.info.Sequence != 5 || lost != 1 {
		t.Errorf("got %+v, told %d lost", h, lost)
	}
}

func TestEqualityOnTheKeyIsASubscription(t *testing.T) {
	type part struct {
		Line  string `pubsub:"key" json:"line"`
		Place int8   `pubsub:"key" json:"place"`
		X     int    `json:"x"`
	}
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		topic := func(p *Participant) *Topic[part] { return topicOf[part](t, p, "parts", WithCodec(JSON)) }
		w := writerOf(t, topic(a), keepAll)
		for _, c := range []struct {
			option EndpointOption
			level  string
		}{
			{WithInstance(part{Line: "l1", Place: -3}), "l1,-3"},
			{WithExpression("line = 'l1' AND place = -3"), "+"}, // a sign is no constant to it
			{WithExpression("x > 5 AND 'l 1' = line AND place = 3"), "l%201,3"},
			{WithExpression("line = 'l1' AND place = 300"), "+"},
			{WithExpression("line = 'l1'"), "+"},
			{WithExpression("line = 'l1' OR place = 3"), "+"},
			{WithExpression("NOT (line = 'l1' AND place = 3)"), "+"},
		} {
			r := newReader(t, topic(b), WithQoS(keepAll), c.option)
			got := b.exchange.data.routes.filters()
			if want := b.root + "/data/default/parts/" + c.level + "/+/+"; len(got) != 1 || got[0] != want {
				t.Errorf("subscribed to %q, want %q", got, want)
			}
			r.Close()
			settle(time.Second)
		}
		r := newReader(t, topic(b), WithQoS(keepAll), WithExpression("line = 'l1' AND place = 3 AND x >= 50"))
		awaitReaders(t, w, 1)
		for i := range 100 {
			write(t, w, part{"l1", int8(i % 4), i})
			settle(10 * time.Millisecond)
		}
		if err := w.WaitAcked(testContext(t)); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		got := r.Take(1000)
		if len(got) != 13 || got[0].Data.X != 51 || got[12].Data.X != 99 {
			t.Errorf("%+v", got)
		}
		silent(t, "the reader", r.ep.events)
		for _, option := range []EndpointOption{WithInstance(3), WithInstance(pose{})} {
			if _, err := NewReader(testContext(t), topic(b), option); !errors.Is(err, ErrInvalid) {
				t.Errorf("another type: %v", err)
			}
		}
	})
}
