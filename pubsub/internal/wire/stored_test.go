package wire

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// stored are messages as participants of version 1 encode them, by the name of their
// line in testdata/stored.txt. Lines are added, but never changed: a red line is a
// participant of yesterday that cannot talk to one of today.
var stored = map[string]Envelope{
	"sample":  {Kind: KindSample, Epoch: 1 << 40, Seq: 70_000, Nanos: 1_700_000_000_000_000_000, Schema: 0xfeedfacecafebeef, Body: []byte{0xa3, 'o', 'n', 'e'}},
	"dispose": {Kind: KindSample, Epoch: 7, Seq: 3, Options: Options{Status: StatusDispose, Lifespan: 5_000_000_000, Previous: 3, Key: []byte("a%2Fb")}, Body: []byte{1}},
	"owned":   {Kind: KindSample, Epoch: 7, Seq: 3, Options: Options{Ownership: Ownership{Told: true, Strength: -300, Change: 2}}, Body: []byte{1}},
	"message": {Kind: KindMessage, Epoch: 9, Options: Options{Channel: []byte("lock/crane")}, Body: []byte{0x90}},
	"json":    {JSON: true, Kind: KindSample, Epoch: 4, Seq: 5, Body: []byte(`{"celsius":21.5}`)},
}

var (
	storedAnnouncement = Announcement{Endpoint: "w1", Payload: []byte(`{"qos":{}}`), Topic: "weather", All: map[string]bool{"w1": true}, Listed: true}
	storedRepair       = Repair{Op: OpAck, From: "r1", To: "w1", Incarnation: 1 << 33, A: 5, B: 1, Key: "k", Ranges: []Range{{7, 9}, {300, 70_000}}}
)

func TestStoredMessagesAreUnderstood(t *testing.T) {
	text, err := os.ReadFile("testdata/stored.txt")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, encoded, _ := strings.Cut(strings.TrimSpace(line), " ")
		there[name] = true
		b, err := hex.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		var got Envelope
		if err := Parse(b, &got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		switch name {
		case "announcement":
			expect(t, name, storedAnnouncement)(ParseAnnouncement(got.Body))
		case "repair":
			expect(t, name, storedRepair)(ParseRepair(got.Body))
		default:
			expect(t, name, stored[name])(got, nil)
		}
	}
	all := map[string][]byte{"announcement": storedAnnouncement.Encode(2), "repair": storedRepair.Encode(3)}
	for name, e := range stored {
		all[name] = Append(nil, &e)
	}
	for name, b := range all {
		if !there[name] {
			t.Errorf("testdata/stored.txt lacks the line\n%s %x", name, b)
		}
	}
}

func expect[T any](t *testing.T, name string, want T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if a, b := fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got); err != nil || a != b { // nil and empty slices print alike
			t.Errorf("%s meant\n%s, and means\n%s, %v", name, a, b, err)
		}
	}
}
