package reliable

import (
	"testing"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// Over a network that loses, repeats and reorders, a reader of one instance gets
// all of it, in order and once, and what is written to others is held for nobody.
func TestANarrowReaderGetsAllOfItsInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{Reliable: true, KeepAll: true, MaxSamples: 200}
		if rapid.Bool().Draw(t, "transient-local") {
			q.Historic = true
		}
		n := newLossyPair(q)
		n.r.narrow = true
		n.s.out.Publish = func(_, key string, payload []byte, _ Sharing) error {
			if key != "a" {
				return nil // the broker does not deliver it
			}
			n.wire = append(n.wire, func() { n.r.Arrived(key, "w/w1", payload) })
			return nil
		}
		var want, got []uint64
		write := func() {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
			if key == "a" {
				want = append(want, n.s.seq)
			}
		}
		if q.Historic {
			for range rapid.IntRange(0, 10).Draw(t, "before") {
				write()
			}
		}
		n.r.Matched(Peer{GUID: theWriter, Reliable: true, Historic: q.Historic})
		n.s.Matched(Peer{GUID: theReader, Reliable: true, Historic: q.Historic, Instance: "a"})
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
		for h := n.r.TakeNext(); h != nil; h = n.r.TakeNext() {
			if h.Key != "a" {
				t.Fatalf("a sample of %q", h.Key)
			}
			got = append(got, h.Seq)
		}
		if len(got) != len(want) {
			t.Fatalf("got %v of %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		if n.s.Lagging(n.s.seq) != nil {
			t.Fatal("everything arrived but is not acknowledged")
		}
		if !q.Historic && len(n.s.held) > 0 {
			t.Fatalf("%d samples are still held", len(n.s.held))
		}
		if e := drain(n.r.events); len(e) != 2 { // Matched and LivelinessChanged
			t.Fatalf("told %+v", e)
		}
	})
}

func TestANarrowReaderIsToldOfLosses(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true})
	n.r.narrow = true
	n.r.Matched(Peer{GUID: theWriter, Reliable: true})
	n.s.Matched(Peer{GUID: theReader, Reliable: true, Instance: "a"})
	n.heal()
	for _, key := range []string{"a", "b", "a", "b", "a"} {
		if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7}); err != nil {
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
	if h := n.r.TakeNext(); h == nil || h.Seq != 5 || lost != 1 {
		t.Errorf("got %+v, told %d lost", h, lost)
	}
}

// What a narrow reader does not want makes what it is sent again no less.
func TestANarrowReaderGetsAsMuchAtOnceAsOthers(t *testing.T) {
	n := newLossyPair(Policies{Reliable: true, KeepAll: true})
	n.r.narrow = true
	n.r.Matched(Peer{GUID: theWriter, Reliable: true})
	n.s.Matched(Peer{GUID: theReader, Reliable: true, Instance: "a"})
	n.heal()
	for range repairBurst {
		for _, key := range []string{"a", "b"} {
			if err := n.s.TryWrite(key, &wire.Envelope{Schema: 7}); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.wire, n.posted = nil, nil
	n.s.Last()
	for range 4 { // heartbeat, request, answer
		for on := n.wire; len(on) > 0; on = on[1:] {
			n.step(0, "deliver")
		}
	}
	if n.s.Lagging(n.s.seq) != nil {
		t.Error("it does not have all after one answer")
	}
}
