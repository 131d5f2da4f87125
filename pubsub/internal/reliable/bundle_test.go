package reliable

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
)

// A writer's samples share a message as far as all matched readers can do with it.
func TestReadersDecideHowSamplesTravel(t *testing.T) {
	s := NewSender(&Writer{Name: "w1", Incarnation: 1, Coalescing: time.Millisecond}, noOut(), &recorder{})
	reader := func(name string) Peer {
		return Peer{GUID: wire.GUID{Participant: name, Incarnation: 1, Endpoint: "r1"}}
	}
	old, wide, narrow := reader("old"), reader("wide"), reader("narrow")
	wide.Bundles, narrow.Bundles, narrow.Instance = true, true, "a"
	for _, step := range []struct {
		what string
		do   func()
		want Sharing
	}{
		{"nobody", func() {}, AnyInstance},
		{"one that takes all", func() { s.Matched(wide) }, AnyInstance},
		{"one of one instance", func() { s.Matched(narrow) }, SameInstance},
		{"one that knows no bundles", func() { s.Matched(old) }, Alone},
		{"it died, and may come back", func() { s.Unmatched(old.GUID, true) }, Alone},
		{"it does not", func() { s.Tick(time.Now().Add(time.Hour)) }, AnyInstance - 1},
		{"the narrow one closes", func() { s.Unmatched(narrow.GUID, false) }, AnyInstance},
	} {
		if step.do(); s.sharing != step.want {
			t.Errorf("%s: %d, want %d", step.what, s.sharing, step.want)
		}
	}
	s.coalescing = 0
	if s.regroup(); s.sharing != Alone {
		t.Error("a writer coalesces that was not asked to")
	}
}

// bundleOf is a message with n samples of two instances, and the receiver that it is
// for.
func bundleOf(n int) (*Receiver, []byte) {
	pair := newLossyPair(Policies{Reliable: true, KeepAll: true})
	pair.s.coalescing, pair.s.keyed = time.Millisecond, true
	var bundle []byte
	pair.s.out.Publish = func(_, _ string, payload []byte, _ Sharing) error { bundle = append(bundle, payload...); return nil }
	pair.match()
	for len(pair.wire) > 0 {
		pair.step(0, "deliver")
	}
	for i := range n {
		if err := pair.s.TryWrite([]string{"a", "b%2E"}[i%2], &wire.Envelope{Schema: 7, Body: []byte{byte(i)}}); err != nil {
			panic(err)
		}
	}
	return pair.r, bundle
}

func TestABundleIsTakenApart(t *testing.T) {
	r, bundle := bundleOf(9)
	r.Arrived(wire.ManyKeys, "w/w1", bundle)
	clear(bundle)
	for i := range 9 {
		h := r.TakeNext()
		if h == nil || h.Seq != uint64(i+1) || h.Key != []string{"a", "b."}[i%2] || !bytes.Equal(h.Body, []byte{byte(i)}) {
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
		var dropped []drop.Reason
		r.out.Drop = func(why drop.Reason) { dropped = append(dropped, why) }
		r.Arrived(wire.ManyKeys, "w/w1", broken(bundle))
		if r.TakeNext() == nil || !slices.Equal(dropped, []drop.Reason{drop.Malformed}) {
			t.Errorf("%s: dropped %v", name, dropped)
		}
	}
	// On the topic for many instances a sample must say its own.
	r, _ := bundleOf(0)
	var dropped []drop.Reason
	r.out.Drop = func(why drop.Reason) { dropped = append(dropped, why) }
	e := wire.Envelope{Kind: wire.KindSample, Epoch: 1, Seq: 1, Schema: 7}
	r.Arrived(wire.ManyKeys, "w/w1", wire.Append(nil, &e))
	if r.TakeNext() != nil || !slices.Equal(dropped, []drop.Reason{drop.Topic}) {
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
		key := wire.ManyKeys
		if !many {
			key = "a"
		}
		r, _ := bundleOf(0)
		before := bytes.Clone(message)
		r.Arrived(key, "w/w1", message)
		if !bytes.Equal(before, message) {
			t.Fatal("the message was changed")
		}
		samples, size := 0, 0
		for h := r.TakeNext(); h != nil; h = r.TakeNext() {
			samples++
			size += len(h.Body)
		}
		if samples*least+size > len(message) {
			t.Fatalf("%d samples of %d bytes came from %d", samples, size, len(message))
		}
		if len(r.writers["w/w1"].early) > maxEarly {
			t.Fatal("too many are kept for later")
		}
	})
}

// Only on the topic of many instances does a sample say its own: whom an access list
// binds to some topics speaks for their instances alone.
func TestASampleIsOfTheInstanceOfItsTopic(t *testing.T) {
	r, bundle := bundleOf(4)
	r.Arrived("c", "w/w1", bundle)
	for range 4 {
		if h := r.TakeNext(); h == nil || h.Key != "c" {
			t.Fatalf("on the topic of c came %+v", h)
		}
	}
}
