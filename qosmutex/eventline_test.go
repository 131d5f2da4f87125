package qosmutex

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A line of events is what encoding/json would have written, but for numbers below 1e-6.
func TestEventsAreWrittenAsJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 23, 59, 1, 123456789, time.UTC)
	for _, e := range []Event{
		{},
		{Event: EventRequested, Topic: "crane", Resource: "default", Participant: "host-4711", Request: "host-4711/3", Priority: -100, At: at},
		{Event: EventGranted, Topic: "crane", Fence: "1795219200000017", At: at.Add(11), Waited: 0.004, How: "passing", Clock: 1 << 63},
		{Event: EventReleased, Participant: "c1", Via: "gateway", At: at.Truncate(time.Second), Held: 1e-9},
		{Event: EventReleased, Held: 1e21, Waited: 1234567.125},
		{Event: EventDenied, Topic: "a\"b\\c<d>&e", Resource: "Kran \u2028 \x00\t\x7f Süd", Participant: string([]byte{'a', 0xff}), Reason: "busy"},
		{Event: EventModels, Models: "fair-forward-use-use", At: at},
		{Event: EventResources, Resources: []string{"a", "b"}, At: at},
		{Event: EventResources, Open: true, At: at},
	} {
		b, err := appendEvent([]byte("before "), &e)
		line, ok := strings.CutPrefix(string(b), "before ")
		if err != nil || !ok {
			t.Fatalf("wrote %s with %v", b, err)
		}
		want, _ := json.Marshal(e)
		if usual := e.Held == 0 || 1e-6 <= e.Held && e.Held < 1e21; usual && line != string(want)+"\n" {
			t.Errorf("wrote %s, want %s", line, want)
		}
		var is, wants Event
		if err := json.Unmarshal([]byte(line), &is); err != nil {
			t.Errorf("wrote %s: %v", line, err)
		}
		if _ = json.Unmarshal(want, &wants); !reflect.DeepEqual(is, wants) {
			t.Errorf("wrote %s, want %s", line, want)
		}
	}
}
