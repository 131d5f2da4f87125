package pubsub

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

var envelopes = rapid.Custom(func(t *rapid.T) envelope {
	e := envelope{
		kind:   kind(rapid.IntRange(0, 127).Draw(t, "kind")),
		epoch:  rapid.Uint64().Draw(t, "epoch"),
		seq:    rapid.Uint64().Draw(t, "seq"),
		nanos:  rapid.Uint64().Draw(t, "nanos"),
		schema: rapid.Uint64().Draw(t, "schema"),
		body:   rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
	}
	e.options.status = status(rapid.IntRange(0, int(statuses)-1).Draw(t, "status"))
	if rapid.Bool().Draw(t, "with channel") {
		e.options.channel = rapid.SliceOfN(rapid.Byte(), 1, 128).Draw(t, "channel")
	}
	if rapid.Bool().Draw(t, "with key") {
		e.options.key = rapid.SliceOfN(rapid.Byte(), 1, 128).Draw(t, "key")
	}
	return e
})

func TestEnvelopesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(envelopes, 1, 5).Draw(t, "envelopes")
		var b []byte
		for i := range all {
			b = appendEnvelope(b, &all[i])
		}
		for i := range all {
			var back envelope
			rest, err := nextEnvelope(b, &back)
			if err != nil || back.seq != all[i].seq || !bytes.Equal(back.body, all[i].body) {
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
		b := appendEnvelope(nil, &e)
		var back envelope
		if err := parseEnvelope(b, &back); err != nil {
			t.Fatal(err)
		}
		if e.body == nil {
			e.body = []byte{}
		}
		if !reflect.DeepEqual(e, back) {
			t.Fatalf("%+v came back as %+v", e, back)
		}
		for n := range b {
			if err := parseEnvelope(b[:n], &back); err == nil {
				t.Fatalf("%d of %d bytes were accepted", n, len(b))
			}
		}
		if err := parseEnvelope(append(b, 0), &back); err == nil {
			t.Fatal("a trailing byte was accepted")
		}
	})
}

func TestEnvelopesAreMsgpackForOthers(t *testing.T) {
	e := envelope{kind: kindLetter, epoch: 1 << 40, seq: 300, nanos: 1, schema: 1 << 63, body: []byte("x")}
	e.options.channel = []byte("c")
	var got []any
	if err := msgpack.Unmarshal(appendEnvelope(nil, &e), &got); err != nil {
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
	var e envelope
	if err := parseEnvelope(future, &e); err != nil || e.epoch != 7 || string(e.options.channel) != "ch" || string(e.body) != "body" {
		t.Errorf("%+v, %v", e, err)
	}
	if err := parseEnvelope([]byte{0x98, 2, 1, 0, 0, 0, 0, 0x80, 0xc4, 0}, &e); !errors.Is(err, errVersion) {
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
		var e envelope
		if err := parseEnvelope(b, &e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	allocs := testing.AllocsPerRun(10, func() { _, _ = skipValue(deep) })
	if allocs > 0 {
		t.Errorf("scanning allocates %v times", allocs)
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add(appendEnvelope(nil, &envelope{kind: kindLetter, body: []byte("x")}))
	f.Add([]byte{0x98, 1, 1, 0, 0, 0, 0, 0x81, 0xa1, 'x', 0x91, 0xc0, 0x81, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e envelope
		if parseEnvelope(b, &e) != nil {
			return
		}
		var v any // must neither panic nor allocate beyond reason
		_ = Msgpack.decode(e.body, &v)
	})
}

// What the scanner accepts and refuses agrees with a decoder.
func FuzzSkipValue(f *testing.F) {
	f.Add([]byte{0x82, 0xa1, 'a', 0xc4, 1, 7, 0xa1, 'b', 0xdc, 0, 2, 1, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		rest, err := skipValue(b)
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
	e := envelope{kind: kindLetter, epoch: 1 << 50, body: make([]byte, 64)}
	e.options.channel = []byte("lock")
	buffer := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buffer = appendEnvelope(buffer[:0], &e)
	}
}

func BenchmarkParseEnvelope(b *testing.B) {
	e := envelope{kind: kindLetter, epoch: 1 << 50, body: make([]byte, 64)}
	e.options.channel = []byte("lock")
	wire := appendEnvelope(nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		if err := parseEnvelope(wire, &e); err != nil {
			b.Fatal(err)
		}
	}
}
