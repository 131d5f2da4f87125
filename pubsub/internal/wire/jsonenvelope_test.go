package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

var jsonEnvelopes = rapid.Custom(func(t *rapid.T) Envelope {
	e := Envelope{
		Kind: KindSample, JSON: true,
		Epoch:  rapid.Uint64().Draw(t, "epoch"),
		Seq:    rapid.Uint64().Draw(t, "seq"),
		Nanos:  rapid.Uint64().Draw(t, "nanos"),
		Schema: rapid.Uint64().Draw(t, "schema"),
	}
	if rapid.Bool().Draw(t, "with body") {
		e.Body, _ = json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "body"))
	}
	e.Options.Status = Status(rapid.IntRange(0, int(statuses)-1).Draw(t, "status"))
	e.Options.Lifespan = rapid.Uint64().Draw(t, "lifespan")
	e.Options.Previous = rapid.Uint64().Draw(t, "previous")
	if key := rapid.StringMatching(`[a-z%0-9]{0,8}`).Draw(t, "key"); key != "" {
		e.Options.Key = []byte(key)
	}
	if rapid.Bool().Draw(t, "exclusive") {
		e.Options.Ownership = Ownership{Told: true, Strength: rapid.Int().Draw(t, "strength"), Change: rapid.Uint64().Draw(t, "change")}
	}
	return e
})

func TestJSONEnvelopesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(jsonEnvelopes, 1, 3).Draw(t, "envelopes")
		var b []byte
		for i := range all {
			b = Append(b, &all[i])
		}
		for n := range len(Append(nil, &all[0])) {
			if _, err := Next(b[:n], new(Envelope)); err == nil {
				t.Fatalf("%d bytes of %s were accepted", n, b)
			}
		}
		for i := range all {
			var back Envelope
			rest, err := Next(b, &back)
			if err != nil || !reflect.DeepEqual(back, all[i]) {
				t.Fatalf("%+v came back from %s as %+v, %v", all[i], b, back, err)
			}
			b = rest
		}
		if len(b) > 0 {
			t.Fatalf("%q is left", b)
		}
	})
}

func TestStrangersJSONIsRefused(t *testing.T) {
	for _, text := range []string{`{}`, `{"v":2,"data":1}`, `{"v":1,"seq":1}`, `{"v":1,"kind":"eaten"}`, `{"v":1,"seq":"-1"}`, `{"v":1,"key":7}`, `{"v":1} x`} {
		if err := Parse([]byte(text), new(Envelope)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	if err := Parse([]byte(`{"v":2}`), new(Envelope)); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
	if err := Parse([]byte(`{"v":1,"data":3,"seq":"1","later":true}`), new(Envelope)); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
}

// A sample of an earlier version, whose envelope is msgpack around JSON, is read.
func TestJSONWithinMsgpackIsRead(t *testing.T) {
	e := Envelope{Kind: KindSample, Seq: 3, Body: []byte(`{"a":1}`)}
	var back Envelope
	if err := Parse(appendMsgpack(nil, &e), &back); err != nil || back.Seq != 3 || string(back.Body) != `{"a":1}` {
		t.Errorf("%+v, %v", back, err)
	}
}
