package main

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
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
