package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"padme/pubsub"
)

func TestUnprintableTextIsEscapedInJSON(t *testing.T) {
	for _, name := range []string{"plain é 中", "a\u202eb", "\u0085\u009b\u200b", "\U000e0041", "\x1b[2J\t"} {
		var text, back string
		b, err := json.Marshal(name)
		if err == nil {
			text = string(escapeUnprintable(append(b, '\n')))
			err = json.Unmarshal([]byte(text), &back)
		}
		if err != nil || back != name || !utf8.ValidString(text) {
			t.Errorf("%q became %s and then %q, %v", name, text, back, err)
		}
		if printable(text[:len(text)-1]) != text[:len(text)-1] {
			t.Errorf("%q is printed as %q", name, text)
		}
	}
}

// Other programs' values may be no UTF-8, which lines of JSON must be.
func TestLinesOfJSONAreUTF8(t *testing.T) {
	var out bytes.Buffer
	broken := json.RawMessage("\"a\xff\xfe\"")
	if err := writeJSON(&out, []sampleLine{{Value: broken}}); err != nil || !utf8.Valid(out.Bytes()) {
		t.Errorf("%q, %v", &out, err)
	}
	if l := plainLineOf(&pubsub.PlainMessage{Payload: broken}, time.Time{}); l.Value != nil || !bytes.Equal(l.Body, broken) {
		t.Errorf("%+v", l)
	}
}
