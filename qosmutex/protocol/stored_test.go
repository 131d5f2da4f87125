package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var addStored = flag.Bool("stored.add", false, "append what has no line yet to testdata/stored.txt")

// Messages and records that an earlier version encoded mean the same today. A line of
// testdata/stored.txt is a kind, the bytes and what they mean. Lines are added, with
// -stored.add, but never changed: a red line here is a participant of yesterday that
// cannot talk to one of today.
func TestStoredMessagesAreUnderstood(t *testing.T) {
	const file = "testdata/stored.txt"
	text, err := os.ReadFile(file)
	if err != nil && !*addStored {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		encoded, meaning, _ := strings.Cut(rest, " ")
		there[kind] = true
		b, err := hex.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if err := understood(kind, b, meaning); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	all := today()
	var added bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		encoded := all[name]
		if there[name] {
			continue
		}
		if !*addStored {
			t.Errorf("%s has no line in %s: run this test with -stored.add", name, file)
			continue
		}
		meaning, err := meaningOf(name, encoded)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&added, "%s %x %s\n", name, encoded, meaning)
	}
	if *addStored {
		if err := os.WriteFile(file, append(text, added.Bytes()...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// understood reports whether the bytes still mean that. A field that is younger than
// the line is not in it, and must be zero.
func understood(kind string, b []byte, meaning string) error {
	var diff string
	if kind == "record" {
		var want Record
		if err := json.Unmarshal([]byte(meaning), &want); err != nil {
			return err
		}
		got, err := DecodeRecord(b)
		if err != nil {
			return err
		}
		diff = cmp.Diff(want, got, cmpopts.EquateEmpty())
	} else {
		var want, got Message
		if err := json.Unmarshal([]byte(meaning), &want); err != nil {
			return err
		}
		if err := new(Decoder).Decode(b, &got); err != nil {
			return err
		}
		diff = cmp.Diff(want, got, cmpopts.EquateEmpty())
	}
	if diff != "" {
		return fmt.Errorf("it meant -, and means +:\n%s", diff)
	}
	return nil
}

func meaningOf(kind string, b []byte) ([]byte, error) {
	if kind == "record" {
		r, err := DecodeRecord(b)
		if err != nil {
			return nil, err
		}
		return json.Marshal(r)
	}
	var m Message
	if err := new(Decoder).Decode(b, &m); err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

// today encodes a message of each kind with every field that it carries, and a record.
func today() map[string][]byte {
	r := exampleRecord()
	all := map[string][]byte{"record": AppendRecord(nil, &r)}
	for k := Kind(1); k < kindEnd; k++ {
		m := rapid.Custom(drawMessage).Example(int(k))
		m.Kind = k
		all[k.String()] = AppendMessage(nil, &m)
	}
	return all
}
