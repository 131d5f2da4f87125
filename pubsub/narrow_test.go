package pubsub

import (
	"errors"
	"testing"
	"time"
)

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
			{selected(t, "line = 'l1' AND place = -3"), "+"}, // a sign is no constant to it
			{selected(t, "x > 5 AND 'l 1' = line AND place = 3"), "l%201,3"},
			{selected(t, "line = 'l1' AND place = 300"), "+"},
			{selected(t, "line = 'l1'"), "+"},
			{selected(t, "line = 'l1' OR place = 3"), "+"},
			{selected(t, "NOT (line = 'l1' AND place = 3)"), "+"},
		} {
			r := newReader(t, topic(b), WithQoS(keepAll), c.option)
			got := b.exchange.data.Filters()
			if want := b.root + "/data/default/parts/" + c.level + "/+/+"; len(got) != 1 || got[0] != want {
				t.Errorf("subscribed to %q, want %q", got, want)
			}
			r.Close()
			settle(time.Second)
		}
		r := newReader(t, topic(b), WithQoS(keepAll), selected(t, "line = 'l1' AND place = 3 AND x >= 50"))
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
