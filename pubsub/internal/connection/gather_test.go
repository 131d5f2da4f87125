package connection

import (
	"bytes"
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
		f := NewQueue()
		f.Open()
		bundles := []*Bundle{{Delay: time.Hour, Mixed: "0/="}, {Delay: time.Hour, Mixed: "1/="}}
		var put, taken [2][]string
		var plain, plainTaken int
		take := func(busy bool) bool {
			p, due, ok := f.Take(busy)
			switch {
			case !ok:
				if busy && f.queue.len() > 0 && !due.After(time.Now()) {
					t.Fatal("what waits is not due ever")
				}
				return false
			case p.Bundle == nil:
				plainTaken++
				return true
			}
			if !p.shared && !bytes.HasSuffix(p.Payload, []byte(";")) || p.shared && len(p.Payload) > MaxBundle {
				t.Fatalf("a message of %d bytes", len(p.Payload))
			}
			of := slices.Index(bundles, p.Bundle)
			for s := range strings.SplitSeq(strings.TrimSuffix(string(p.Payload), ";"), ";") {
				topic, _, _ := strings.Cut(s, ":")
				if p.Topic != topic && (p.Topic != p.Bundle.Mixed || strings.Contains(s, "narrow")) {
					t.Fatalf("%.20q on topic %q", s, p.Topic)
				}
				taken[of] = append(taken[of], s)
			}
			return true
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 7:
				of := rapid.IntRange(0, 1).Draw(t, "writer")
				p := Packet{Topic: fmt.Sprintf("%d/%s", of, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")), Bundle: bundles[of], QoS: 1}
				whom := "narrow" // a reader that hears nothing of the topic for many
				if rapid.IntRange(0, 4).Draw(t, "narrow reader") > 0 {
					p.Mixed, whom = p.Bundle.Mixed, "all"
				}
				size := rapid.SampledFrom([]int{0, 10, MaxBundle / 3, MaxBundle}).Draw(t, "size")
				s := fmt.Sprintf("%s:%d:%s:%s", p.Topic, n, whom, strings.Repeat("x", size))
				put[of] = append(put[of], s)
				p.Payload = []byte(s + ";")
				if err := f.Put(p); err != nil {
					t.Fatal(err)
				}
			case op == 7:
				if err := f.Put(Packet{Topic: "plain"}); err != nil {
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
	f := NewQueue()
	f.Open()
	put := func(b *Bundle, topic, payload string) {
		t.Helper()
		if err := f.Put(Packet{Topic: topic, Payload: []byte(payload), Bundle: b, QoS: 1}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(busy bool, want string) {
		t.Helper()
		p, _, _ := f.Take(busy)
		if string(p.Payload) != want {
			t.Fatalf("took %q, want %q", p.Payload, want)
		}
	}
	long, short := &Bundle{Delay: time.Hour}, &Bundle{Delay: time.Nanosecond}
	put(long, "a", "1")
	expect(false, "1")
	put(long, "a", "2")
	put(long, "a", "3")
	expect(true, "")
	expect(false, "23")
	put(long, "a", "4")
	put(short, "b", "5") // what is due does not wait for what came before it,
	for f.waits() {      // until the delay is over
	}
	expect(true, "4")
	expect(true, "5")
	put(short, "b", "5")
	put(long, "a", "4") // nor for what came after it
	for f.waits() {     // until the delay is over
	}
	expect(true, "5")
	expect(true, "4")
	put(long, "a", "6")
	expect(true, "")
	f.Send()
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
	f.Open()
	put(long, "a", "x")
	expect(true, "")
}

func TestSamplesOfTwoPartitionsDoNotMix(t *testing.T) {
	f := NewQueue()
	f.Open()
	one, two := &Bundle{Delay: time.Hour}, &Bundle{Delay: time.Hour}
	first := append(make([]byte, 0, 200), "first "...) // both begin with it, and there is room behind
	for _, p := range []Packet{
		{Payload: first, Bundle: one},
		{Payload: first, Bundle: two},
		{Payload: []byte("one"), Bundle: one},
		{Payload: []byte("two"), Bundle: two},
	} {
		if err := f.Put(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"first one", "first two"} {
		if p, _, _ := f.Take(false); string(p.Payload) != want {
			t.Errorf("%q, want %q", p.Payload, want)
		}
	}
}
