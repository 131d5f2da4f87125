package pubsub

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is put and taken, each writer's samples leave in order, a message has no
// more than it may have, and stands on a topic on which all of its readers hear it.
func TestBundlesKeepTheOrderOfEachWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFIFO()
		f.open()
		bundles := []*bundle{{delay: time.Hour, mixed: "0/="}, {delay: time.Hour, mixed: "1/="}}
		var put, taken [2][]string
		var plain, plainTaken int
		take := func(busy bool) bool {
			p, due, ok := f.take(busy)
			switch {
			case !ok:
				if busy && f.queue.len() > 0 && !due.After(time.Now()) {
					t.Fatal("what waits is not due ever")
				}
				return false
			case p.bundle == nil:
				plainTaken++
				return true
			}
			if !p.shared && !bytes.HasSuffix(p.payload, []byte(";")) || p.shared && len(p.payload) > maxBundle {
				t.Fatalf("a message of %d bytes", len(p.payload))
			}
			of := slices.Index(bundles, p.bundle)
			for s := range strings.SplitSeq(strings.TrimSuffix(string(p.payload), ";"), ";") {
				topic, _, _ := strings.Cut(s, ":")
				if p.topic != topic && (p.topic != p.bundle.mixed || strings.Contains(s, "narrow")) {
					t.Fatalf("%.20q on topic %q", s, p.topic)
				}
				taken[of] = append(taken[of], s)
			}
			return true
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 7:
				of := rapid.IntRange(0, 1).Draw(t, "writer")
				p := packet{topic: fmt.Sprintf("%d/%s", of, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")), bundle: bundles[of], qos: 1}
				whom := "narrow" // a reader that hears nothing of the topic for many
				if rapid.IntRange(0, 4).Draw(t, "narrow reader") > 0 {
					p.mixed, whom = p.bundle.mixed, "all"
				}
				size := rapid.SampledFrom([]int{0, 10, maxBundle / 3, maxBundle}).Draw(t, "size")
				s := fmt.Sprintf("%s:%d:%s:%s", p.topic, n, whom, strings.Repeat("x", size))
				put[of] = append(put[of], s)
				p.payload = []byte(s + ";")
				if err := f.put(p); err != nil {
					t.Fatal(err)
				}
			case op == 7:
				if err := f.put(packet{topic: "plain"}); err != nil {
					t.Fatal(err)
				}
				plain++
			case op == 8:
				take(true)
			default:
				take(false)
			}
			if plain > plainTaken && f.waits() {
				t.Fatal("somebody else's message waits behind a bundle")
			}
		}
		for take(false) {
		}
		if !slices.Equal(put[0], taken[0]) || !slices.Equal(put[1], taken[1]) || plain != plainTaken {
			t.Fatalf("put %.40q, took %.40q", put, taken)
		}
		if f.bytes != 0 || f.gathering != 0 {
			t.Fatalf("%d bytes, %d gather in an empty queue", f.bytes, f.gathering)
		}
	})
}

func TestSamplesGatherOnlyWhileTheBrokerIsBusy(t *testing.T) {
	f := newFIFO()
	f.open()
	put := func(b *bundle, topic, payload string) {
		t.Helper()
		if err := f.put(packet{topic: topic, payload: []byte(payload), bundle: b, qos: 1}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(busy bool, want string) {
		t.Helper()
		p, _, _ := f.take(busy)
		if string(p.payload) != want {
			t.Fatalf("took %q, want %q", p.payload, want)
		}
	}
	long, short := &bundle{delay: time.Hour}, &bundle{delay: time.Nanosecond}
	put(long, "a", "1")
	expect(false, "1")
	put(long, "a", "2")
	put(long, "a", "3")
	expect(true, "")
	expect(false, "23")
	put(long, "a", "4")
	put(short, "b", "5") // what is due does not wait for what came before it,
	eventually(t, "the delay is over", func() bool { return !f.waits() })
	expect(true, "4")
	expect(true, "5")
	put(short, "b", "5")
	put(long, "a", "4") // nor for what came after it
	eventually(t, "the delay is over", func() bool { return !f.waits() })
	expect(true, "5")
	expect(true, "4")
	put(long, "a", "6")
	expect(true, "")
	f.send()
	expect(true, "6")
	put(long, "a", "7")
	put(nil, "c", "8")
	expect(true, "7")
	expect(true, "8")
	put(long, "a", "9")
	put(long, "b", "0") // it may not go on another topic
	expect(true, "9")
	expect(true, "")
	f.lost(nil)
	f.open()
	put(long, "a", "x")
	expect(true, "")
}

func TestSamplesOfTwoPartitionsDoNotMix(t *testing.T) {
	f := newFIFO()
	f.open()
	one, two := &bundle{delay: time.Hour}, &bundle{delay: time.Hour}
	first := append(make([]byte, 0, 200), "first "...) // both begin with it, and there is room behind
	for _, p := range []packet{
		{payload: first, bundle: one},
		{payload: first, bundle: two},
		{payload: []byte("one"), bundle: one},
		{payload: []byte("two"), bundle: two},
	} {
		if err := f.put(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"first one", "first two"} {
		if p, _, _ := f.take(false); string(p.payload) != want {
			t.Errorf("%q, want %q", p.payload, want)
		}
	}
}

// A writer's samples share a message as far as all matched readers can do with it.
func TestReadersDecideHowSamplesTravel(t *testing.T) {
	s := newSender("w1", 1, QoS{}, newEvents())
	s.coalesces = true
	s.post = func(string, []byte) {}
	reader := func(name string, o dataOffer) endpoint {
		e := endpoint{guid: GUID{name, 1, "r1"}}
		e.QoS.dataOffer = o
		return e
	}
	old, wide, narrow := reader("old", dataOffer{}), reader("wide", dataOffer{Bundles: true}), reader("narrow", dataOffer{Bundles: true, Instance: "a"})
	s.regroup()
	for _, step := range []struct {
		what string
		do   func()
		want company
	}{
		{"nobody", func() {}, anyInstance},
		{"one that takes all", func() { s.matched(wide) }, anyInstance},
		{"one of one instance", func() { s.matched(narrow) }, sameInstance},
		{"one that knows no bundles", func() { s.matched(old) }, alone},
		{"it died, and may come back", func() { s.unmatched(old.guid, true) }, alone},
		{"it does not", func() { s.tick(time.Now().Add(time.Hour)) }, anyInstance - 1},
		{"the narrow one closes", func() { s.unmatched(narrow.guid, false) }, anyInstance},
	} {
		if step.do(); s.company != step.want {
			t.Errorf("%s: %d, want %d", step.what, s.company, step.want)
		}
	}
	s.coalesces = false
	if s.regroup(); s.company != alone {
		t.Error("a writer coalesces that was not asked to")
	}
}

// bundleOf is a message with n samples of two instances, and the receiver that it is
// for.
func bundleOf(n int) (*receiver, []byte) {
	pair := newLossyPair(QoS{Reliability: Reliable, History: KeepAll})
	pair.s.coalesces, pair.s.keyed = true, true
	var bundle []byte
	pair.s.publish = func(_ string, payload []byte) error { bundle = append(bundle, payload...); return nil }
	pair.match()
	for len(pair.wire) > 0 {
		pair.step(0, "deliver")
	}
	for i := range n {
		if _, err := pair.s.tryWrite([]string{"a", "b%2E"}[i%2], &envelope{schema: 7, body: []byte{byte(i)}}); err != nil {
			panic(err)
		}
	}
	return pair.r, bundle
}

func TestABundleIsTakenApart(t *testing.T) {
	r, bundle := bundleOf(9)
	r.sample(manyKeys, "w/w1", bundle)
	clear(bundle)
	for i := range 9 {
		h := r.takeNext()
		if h == nil || h.info.Sequence != uint64(i+1) || h.key != []string{"a", "b."}[i%2] || !bytes.Equal(h.body, []byte{byte(i)}) {
			t.Fatalf("sample %d is %+v", i, h)
		}
	}
}

func TestABrokenBundleEndsWhereItBreaks(t *testing.T) {
	for name, broken := range map[string]func([]byte) []byte{
		"cut off":      func(b []byte) []byte { return b[:len(b)-1] },
		"noise behind": func(b []byte) []byte { return append(b, 0xc1) },
	} {
		r, bundle := bundleOf(3)
		var dropped []reason
		r.drop = func(why reason) { dropped = append(dropped, why) }
		r.sample(manyKeys, "w/w1", broken(bundle))
		if r.takeNext() == nil || !slices.Equal(dropped, []reason{dropMalformed}) {
			t.Errorf("%s: dropped %v", name, dropped)
		}
	}
	// On the topic for many instances a sample must say its own.
	r, _ := bundleOf(0)
	var dropped []reason
	r.drop = func(why reason) { dropped = append(dropped, why) }
	e := envelope{kind: kindSample, epoch: 1, seq: 1, schema: 7}
	r.sample(manyKeys, "w/w1", appendEnvelope(nil, &e))
	if r.takeNext() != nil || !slices.Equal(dropped, []reason{dropTopic}) {
		t.Errorf("without a key: dropped %v", dropped)
	}
}

// Whatever stands in a message, nothing panics, and what is kept of it is not more
// than it has.
func FuzzBundle(f *testing.F) {
	_, bundle := bundleOf(5)
	f.Add(bundle, true)
	f.Add(bytes.Repeat([]byte{0x98, 1, 4, 1, 1, 0, 7, 0x81, 0xa1, 'k', 0xc4, 1, 'a', 0xc4, 0}, 50), true)
	f.Add([]byte{0xdd, 0x40, 0, 0, 0}, false)
	f.Fuzz(func(t *testing.T, message []byte, many bool) {
		const least = 10 // bytes of a sample
		key := manyKeys
		if !many {
			key = "a"
		}
		r, _ := bundleOf(0)
		before := bytes.Clone(message)
		r.sample(key, "w/w1", message)
		if !bytes.Equal(before, message) {
			t.Fatal("the message was changed")
		}
		samples, size := 0, 0
		for h := r.takeNext(); h != nil; h = r.takeNext() {
			samples++
			size += len(h.body)
		}
		if samples*least+size > len(message) {
			t.Fatalf("%d samples of %d bytes came from %d", samples, size, len(message))
		}
		if len(r.writers["w/w1"].early) > maxEarly {
			t.Fatal("too many are kept for later")
		}
	})
}

func TestCoalescingIsChecked(t *testing.T) {
	p := join(t, startBroker(t), "p")
	topic := topicOf[pose](t, p, "p")
	for name, opts := range map[string][]EndpointOption{
		"negative":  {WithCoalescing(-1)},
		"too long":  {WithCoalescing(maxCoalescing + 1)},
		"transient": {WithCoalescing(time.Millisecond), WithQoS(QoS{Reliability: Reliable, Durability: Transient})},
	} {
		if _, err := NewWriter(testContext(t), topic, opts...); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "coalesc") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewReader(testContext(t), topic, WithCoalescing(time.Millisecond)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a reader coalesces: %v", err)
	}
}

// Readers name the partitions of a writer with a pattern, and may name ever new ones.
func TestBundlesOfPartitionsAreForgotten(t *testing.T) {
	a := address{delay: time.Hour, bundles: map[string]*bundle{}}
	f := newFIFO()
	f.open()
	for i := range 3 * maxBundles {
		for range 2 {
			if err := f.put(a.packet(fmt.Sprint(i), "k", []byte("x"), anyInstance)); err != nil {
				t.Fatal(err)
			}
		}
		if p, _, _ := f.take(false); string(p.payload) != "xx" {
			t.Fatalf("two samples of a partition are %q", p.payload)
		}
	}
	if len(a.bundles) > maxBundles {
		t.Errorf("%d are remembered", len(a.bundles))
	}
}

// Only on the topic of many instances does a sample say its own: whom an access list
// binds to some topics speaks for their instances alone.
func TestASampleIsOfTheInstanceOfItsTopic(t *testing.T) {
	r, bundle := bundleOf(4)
	r.sample("c", "w/w1", bundle)
	for range 4 {
		if h := r.takeNext(); h == nil || h.key != "c" {
			t.Fatalf("on the topic of c came %+v", h)
		}
	}
}
