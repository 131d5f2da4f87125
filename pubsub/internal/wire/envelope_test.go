package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

var envelopes = rapid.Custom(func(t *rapid.T) Envelope {
	e := Envelope{
		Kind:   Kind(rapid.IntRange(0, 127).Draw(t, "kind")),
		Epoch:  rapid.Uint64().Draw(t, "epoch"),
		Seq:    rapid.Uint64().Draw(t, "seq"),
		Nanos:  rapid.Uint64().Draw(t, "nanos"),
		Schema: rapid.Uint64().Draw(t, "schema"),
		Body:   rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
	}
	e.Options.Status = Status(rapid.IntRange(0, int(statuses)-1).Draw(t, "status"))
	if rapid.Bool().Draw(t, "with channel") {
		e.Options.Channel = rapid.SliceOfN(rapid.Byte(), 1, 128).Draw(t, "channel")
	}
	if rapid.Bool().Draw(t, "with key") {
		e.Options.Key = rapid.SliceOfN(rapid.Byte(), 1, 128).Draw(t, "key")
	}
	if rapid.Bool().Draw(t, "exclusive") {
		e.Options.Ownership = Ownership{Told: true, Strength: rapid.Int().Draw(t, "strength"), Change: rapid.Uint64().Draw(t, "change")}
	}
	return e
})

func TestEnvelopesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(envelopes, 1, 5).Draw(t, "envelopes")
		var b []byte
		for i := range all {
			b = Append(b, &all[i])
		}
		for i := range all {
			var back Envelope
			rest, err := Next(b, &back)
			if err != nil || back.Seq != all[i].Seq || !bytes.Equal(back.Body, all[i].Body) {
				t.Fatalf("%+v came back as %+v, %v", all[i], back, err)
			}
			b = rest
		}
		if len(b) > 0 {
			t.Fatalf("%d bytes are left", len(b))
		}
	})
}

func TestEnvelopesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := envelopes.Draw(t, "envelope")
		b := Append(nil, &e)
		var back Envelope
		if err := Parse(b, &back); err != nil {
			t.Fatal(err)
		}
		if e.Body == nil {
			e.Body = []byte{}
		}
		if !reflect.DeepEqual(e, back) {
			t.Fatalf("%+v came back as %+v", e, back)
		}
		for n := range b {
			if err := Parse(b[:n], &back); err == nil {
				t.Fatalf("%d of %d bytes were accepted", n, len(b))
			}
		}
		if err := Parse(append(b, 0), &back); err == nil {
			t.Fatal("a trailing byte was accepted")
		}
	})
}

func TestEnvelopesAreMsgpackForOthers(t *testing.T) {
	e := Envelope{Kind: KindMessage, Epoch: 1 << 40, Seq: 300, Nanos: 1, Schema: 1 << 63, Body: []byte("x")}
	e.Options.Channel = []byte("c")
	var got []any
	if err := msgpack.Unmarshal(Append(nil, &e), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 8 || got[2] != uint64(1<<40) || !reflect.DeepEqual(got[6], map[string]any{"c": []byte("c")}) {
		t.Errorf("%#v", got)
	}
}

func TestEnvelopesOfLaterVersionsOfTheFormat(t *testing.T) {
	future, err := msgpack.Marshal([]any{1, 1, 7, 0, 0, 0, map[string]any{"new": []int{1, 2}, "c": "ch"}, []byte("body"), "extra", map[string]any{"f": 1.5}, []any{nil}})
	if err != nil {
		t.Fatal(err)
	}
	var e Envelope
	if err := Parse(future, &e); err != nil || e.Epoch != 7 || string(e.Options.Channel) != "ch" || string(e.Body) != "body" {
		t.Errorf("%+v, %v", e, err)
	}
	if err := Parse([]byte{0x98, 2, 1, 0, 0, 0, 0, 0x80, 0xc4, 0}, &e); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
}

func TestHostileEnvelopesAreRefused(t *testing.T) {
	deep := bytes.Repeat([]byte{0x91}, 1_000_000)
	head := []byte{0x98, 1, 1, 0, 0, 0, 0, 0x80}
	for name, b := range map[string][]byte{
		"array of a billion": {0xdd, 0x40, 0, 0, 0},
		"map of a billion":   append(head[:7:7], 0xdf, 0x40, 0, 0, 0),
		"body of a gigabyte": append(head[:8:8], 0xc6, 0x40, 0, 0, 0),
		"ext of 4 gigabytes": append(head[:8:8], 0xc9, 0xff, 0xff, 0xff, 0xff),
		"deep body":          append(head[:8:8], deep...),
		"deep options":       append(head[:7:7], append([]byte{0x81, 0xa1, 'x'}, bytes.Repeat([]byte{0x81, 1}, 1000)...)...),
		"unused byte":        append(head[:8:8], 0xc1),
	} {
		var e Envelope
		if err := Parse(b, &e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	allocs := testing.AllocsPerRun(10, func() { _, _ = SkipValue(deep) })
	if allocs > 0 {
		t.Errorf("scanning allocates %v times", allocs)
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add(Append(nil, &Envelope{Kind: KindMessage, Body: []byte("x")}))
	f.Add([]byte{0x98, 1, 1, 0, 0, 0, 0, 0x81, 0xa1, 'x', 0x91, 0xc0, 0x81, 1, 2})
	f.Add([]byte(`{"v":1,"data":{"a":[1]},"kind":"disposed","seq":"7","later":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Envelope
		_ = Parse(b, &e) // must neither panic nor allocate beyond reason
	})
}

// What the scanner accepts and refuses agrees with a decoder.
func FuzzSkipValue(f *testing.F) {
	f.Add([]byte{0x82, 0xa1, 'a', 0xc4, 1, 7, 0xa1, 'b', 0xdc, 0, 2, 1, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		rest, err := SkipValue(b)
		if err != nil {
			return
		}
		r := bytes.NewReader(b)
		if err := msgpack.NewDecoder(r).Skip(); err == nil && r.Len() != len(rest) {
			t.Fatalf("%x: %d bytes left, the decoder leaves %d", b, len(rest), r.Len())
		}
	})
}

func BenchmarkAppendEnvelope(b *testing.B) {
	e := Envelope{Kind: KindMessage, Epoch: 1 << 50, Body: make([]byte, 64)}
	e.Options.Channel = []byte("lock")
	buffer := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buffer = Append(buffer[:0], &e)
	}
}

func BenchmarkParseEnvelope(b *testing.B) {
	e := Envelope{Kind: KindMessage, Epoch: 1 << 50, Body: make([]byte, 64)}
	e.Options.Channel = []byte("lock")
	wire := Append(nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		if err := Parse(wire, &e); err != nil {
			b.Fatal(err)
		}
	}
}
