package pubsub

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// A participant with the name of a wildcard would be subscribed to the messages of all others.
func TestWildcardsAreNotNames(t *testing.T) {
	for name, ok := range map[string]bool{"+": false, "#": false, "": false, " ": false, "a b": true, "a\x00": false, "a+": true, "#1": true, "a": true} {
		if err := CheckName(name); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
	if _, err := Join(t.Context(), "mqtt://127.0.0.1:1", "+"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "wildcard") {
		t.Errorf("Join = %v", err)
	}
}

func TestLevelsAreEncodedForEveryBroker(t *testing.T) {
	for name, want := range map[string]string{
		"plain-Name_1":  "plain-Name_1",
		"a b":           "a%20b",
		"146.52":        "146%2E52",
		"*$+#/>%~":      "%2A%24%2B%23%2F%3E%25%7E",
		"Kräne@halle:2": "Kräne@halle:2",
	} {
		if got, err := EncodeLevel(name); err != nil || got != want {
			t.Errorf("EncodeLevel(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "\x00", "a\tb", "\u0085", "\uffff", "\ufdd0", "\U0001fffe", "\xff", strings.Repeat("x", 129)} {
		if got, err := EncodeLevel(name); err == nil {
			t.Errorf("EncodeLevel(%q) = %q", name, got)
		}
	}
	for _, level := range []string{"", "+", "#", "a b", "%", "%2", "%2e", "%41", "%00", "%zz", strings.Repeat("%2E", 200)} {
		if got, err := DecodeLevel(level); err == nil {
			t.Errorf("DecodeLevel(%q) = %q", level, got)
		}
	}
}

func TestEveryNameHasOneLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		level, err := EncodeLevel(name)
		if err != nil {
			return
		}
		if strings.ContainsAny(level, " .*$+#/>~") || !utf8.ValidString(level) {
			t.Fatalf("%q became %q", name, level)
		}
		if back, err := DecodeLevel(level); err != nil || back != name {
			t.Fatalf("%q became %q became %q, %v", name, level, back, err)
		}
	})
}

func FuzzDecodeLevel(f *testing.F) {
	for _, s := range []string{"a", "%2E", "%", "%2e", "ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, level string) {
		name, err := DecodeLevel(level)
		if err != nil {
			return
		}
		if again, err := EncodeLevel(name); err != nil || again != level {
			t.Fatalf("%q decodes to %q, which encodes to %q, %v", level, name, again, err)
		}
	})
}
